/* Glob patterns, as in KEYS, SCAN MATCH, CONFIG GET: * ? [a-z] [^a] \x. Redis' semantics to the last quirk (an empty text matches only the empty
 * pattern; an unclosed class ends with the pattern; in a class ranges may run backwards, bytes are signed). At worst pattern size x text size
 * steps: when a part between two stars has matched, no earlier star is ever tried again, so many stars multiply nothing.
 *
 * That product has a bound, since a client chooses both: 4096 steps and 256 a byte of text, up to 2^18 (0.3 ms), or 4 a byte of a text of more than
 * 64 KiB. A match that would take more is none. So a pattern of up to 255 bytes is matched exactly on texts of up to 1 KiB, and on longer ones unless it
 * is made to be slow. (Redis gives up after 1000 stars that nest.)
 */
#ifndef SERVER_GLOB_H
#define SERVER_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* steps: what it took is added; or NULL. */
bool glob_match(const char *pattern, size_t pattern_size, const char *text, size_t size, bool ignore_case, uint64_t *steps);

#endif
