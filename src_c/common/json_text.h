/* json_text.h -- text as JSON has it, on standard output. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdio.h>

/* Prints it in quotes; what JSON does not allow there is escaped. */
static inline void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

#endif
