/* flags.c -- see flags.h. */
#include "flags.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 29, NAME_MOST = 64 };

/* --- complaints ------------------------------------------------------- */

void flags_refuse(const char *what, const char *value, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: %s%s%s: ", program_invocation_short_name, what,
            value && *value ? " " : "", value ? value : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

/* Levenshtein's distance: how many characters to insert, drop or replace. One
 * row of the matrix at a time; `diagonal` is what stood up and left. */
static size_t distance(const char *from, size_t length, const char *to)
{
    size_t row[NAME_MOST + 1], to_length = strlen(to);
    for (size_t j = 0; j <= to_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= to_length; j++) {
            size_t best = diagonal + (from[i - 1] != to[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[to_length];
}

_Noreturn static void refuse_unknown(const struct flags *flags,
                                     const char *word, size_t length)
{
    const char *nearest = NULL;
    size_t least = 4; /* more mistakes than that are another word */
    for (size_t i = 0; i < flags->count; i++) {
        const char *name = flags->rows[i].name;
        if (!name)
            continue;
        size_t found = distance(word, length, name);
        if (found < least) {
            least = found;
            nearest = name;
        }
    }
    if (nearest)
        flags_refuse(word, NULL, "no such flag; did you mean %s?", nearest);
    flags_refuse(word, NULL, "no such flag; see --help");
}

_Noreturn static void refuse_value(const struct flag *flag, const char *value)
{
    if (!value)
        value = "(nothing)";
    if (flag->allowed)
        flags_refuse(flag->name, value, "want %s", flag->allowed);
    if (flag->read == flag_double)
        flags_refuse(flag->name, value, "want a number from %g to %g",
                     flag->min, flag->max);
    flags_refuse(flag->name, value, "want a whole number from %.0f to %.0f",
                 flag->min, flag->max);
}

/* --- reading values --------------------------------------------------- */

bool flag_number(const struct flag *flag, const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= flag->min &&
           *number <= flag->max;
}

static bool whole_number(const struct flag *flag, const char *text,
                         double *number)
{
    return flag_number(flag, text, number) && *number == floor(*number);
}

bool flag_unsigned(void *into, const struct flag *flag, const char *text)
{
    double number;
    if (!whole_number(flag, text, &number))
        return false;
    *(unsigned *)flag_member(into, flag) = (unsigned)number;
    return true;
}

bool flag_uint64(void *into, const struct flag *flag, const char *text)
{
    double number;
    if (!whole_number(flag, text, &number))
        return false;
    *(uint64_t *)flag_member(into, flag) = (uint64_t)number;
    return true;
}

bool flag_double(void *into, const struct flag *flag, const char *text)
{
    return flag_number(flag, text, flag_member(into, flag));
}

bool flag_text(void *into, const struct flag *flag, const char *text)
{
    *(const char **)flag_member(into, flag) = text;
    return text[0] != '\0';
}

bool flag_true(void *into, const struct flag *flag, const char *text)
{
    (void)text;
    *(bool *)flag_member(into, flag) = true;
    return true;
}

/* --- help ------------------------------------------------------------- */

static void help_row(const struct flag *flag)
{
    if (!flag->name) {
        printf("\n%s\n", flag->help);
        return;
    }
    int width = printf("  %s %s", flag->name, flag->value ? flag->value : "");
    for (const char *line = flag->help; line;) {
        const char *end = strchr(line, '\n');
        int length = end ? (int)(end - line) : (int)strlen(line);
        if (width >= HELP_COLUMN) {
            putchar('\n');
            width = 0;
        }
        printf("%*s%.*s\n", HELP_COLUMN - width, "", length, line);
        width = 0;
        line = end ? end + 1 : NULL;
    }
}

_Noreturn static void help(const struct flags *flags)
{
    puts(flags->head);
    for (size_t i = 0; i < flags->count; i++)
        help_row(&flags->rows[i]);
    printf("\n%s\n", flags->tail);
    exit(0);
}

/* --- reading the line ------------------------------------------------- */

/* The row of a name, or `count`. */
static size_t find_row(const struct flags *flags, const char *name,
                       size_t length)
{
    size_t i = 0;
    for (; i < flags->count; i++) {
        const char *here = flags->rows[i].name;
        if (here && strlen(here) == length && strncmp(here, name, length) == 0)
            break;
    }
    return i;
}

const char *flags_given(const struct flags *flags, const char *name)
{
    return flags->given[find_row(flags, name, strlen(name))];
}

/* One flag, whose value may be the next word. Returns how many words those
 * were. */
static int read_flag(const struct flags *flags, void *into, char **words)
{
    size_t length = strcspn(words[0], "="), row;
    const char *value = words[0][length] ? words[0] + length + 1 : NULL;
    row = find_row(flags, words[0], length);
    if (row == flags->count)
        refuse_unknown(flags, words[0], length);
    const struct flag *flag = &flags->rows[row];
    if (!flag->value && value)
        flags_refuse(flag->name, value, "takes no value");
    int taken = flag->value && !value && words[1] ? 2 : 1;
    if (!flag->value)
        value = "";
    else if (taken == 2)
        value = words[1];
    if (!value || !flag->read(into, flag, value))
        refuse_value(flag, value);
    flags->given[row] = value;
    return taken;
}

void flags_read(const struct flags *flags, void *into, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            help(flags);
        if (argv[i][0] == '-')
            i += read_flag(flags, into, argv + i);
        else
            flags->operand(into, argv[i++]);
    }
}
