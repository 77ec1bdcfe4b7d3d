/* flags.h -- a program's command line, read by one table.
 *
 *     row: name, what its value is called, what is allowed, help,
 *          how the value is read, and the member that it goes to
 *
 * Parsing, --help and complaints come from the same rows, so none of them can
 * say what another does not. Written as "--flag value" or "--flag=value", in
 * any order; what does not begin with '-' is an operand. No abbreviations: a
 * study's flag must not change its meaning when a flag is added.
 *
 * A mistake ends the program with status 2 and one line on standard error,
 *
 *     server: --workers 0: want a whole number from 1 to 32768
 *
 * as err(3), which reports failed calls, ends it with "server: call: reason".
 */
#ifndef FLAGS_H
#define FLAGS_H

#include <stdbool.h>
#include <stddef.h>

struct flag {
    const char *name;    /* "--size"; NULL: `help` is a heading */
    const char *value;   /* what help calls its value; NULL: it takes none */
    const char *allowed; /* what is wanted; NULL: min to max says it */
    const char *help;    /* lines of at most 51 columns */
    /* Puts the value into the struct that is filled; false: not allowed. */
    bool (*read)(void *into, const struct flag *flag, const char *text);
    size_t offset; /* of the member, for the readers below */
    double min, max;
};

/* A program's table, and what was given: a text per row, NULL where the flag
 * was not ("" for a flag without a value). */
struct flags {
    const struct flag *rows;
    const char **given;
    size_t count;
    const char *head, *tail; /* of --help */
    void (*operand)(void *into, const char *text);
};

/* Reads the command line into the struct `into`. Answers --help and ends with
 * status 0; ends with status 2 after a complaint. */
void flags_read(const struct flags *flags, void *into, int argc, char **argv);

/* The text that a flag was given; NULL: it was not. */
const char *flags_given(const struct flags *flags, const char *name);

/* Complains of `what` and its value (NULL: it has none), and ends with 2. */
__attribute__((format(printf, 3, 4))) _Noreturn void
flags_refuse(const char *what, const char *value, const char *format, ...);

/* --- readers, by the type of the member ------------------------------- */

bool flag_unsigned(void *into, const struct flag *flag, const char *text);
bool flag_uint64(void *into, const struct flag *flag, const char *text);
bool flag_double(void *into, const struct flag *flag, const char *text);
bool flag_text(void *into, const struct flag *flag, const char *text);
bool flag_true(void *into, const struct flag *flag, const char *text);

/* For readers of a program's own: a number from min to max, and nothing
 * behind it. */
bool flag_number(const struct flag *flag, const char *text, double *number);

/* The member that a row names. */
static inline void *flag_member(void *into, const struct flag *flag)
{
    return (char *)into + flag->offset;
}

#endif
