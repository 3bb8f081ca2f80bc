/* Words of a line of a configuration file: splitting them and writing them, with Redis' quotes and escapes. Pure functions. */
#ifndef SERVER_CONFIG_WORDS_H
#define SERVER_CONFIG_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Splits a line into at most max words. They lie in buffer, which has room for strlen(line) + 1 bytes. Words are separated by white space;
 * "..." knows \n \r \t \b \a \xHH and \ before any other character, '...' only \'; a quote may begin in the middle of a word, and white space
 * must follow where it ends. Returns the number of words, or -1: a quote is not balanced, or WORDS_TOO_MANY. */
#define WORDS_TOO_MANY (-2)
int words_split(const char *line, char *buffer, char **words, int max);

/* Writes a text in double quotes, so that words_split() reads it back. At most 4 bytes of out for each byte, and 3 more. */
void words_quote(const char *text, char *out);

#endif
