/* Glob patterns, as in KEYS, SCAN MATCH, CONFIG GET: * ? [a-z] [^a] \x. Redis' semantics to the last quirk (an empty text matches only the empty
 * pattern; an unclosed class ends with the pattern; in a class ranges may run backwards, bytes are signed). At worst pattern size x text size
 * steps: when a part between two stars has matched, no earlier star is ever tried again, so many stars multiply nothing.
 */
#ifndef SERVER_GLOB_H
#define SERVER_GLOB_H

#include <stdbool.h>
#include <stddef.h>

bool glob_match(const char *pattern, size_t pattern_size, const char *text, size_t size, bool ignore_case);

#endif
