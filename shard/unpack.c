#include "shard/unpack.h"

#include <stdbool.h>
#include <string.h>

#define AS_IT_IS 32u
#define LENGTH_LONG 7u

static bool copy_plain(struct unpacking *u, size_t n) {
    if (u->from_size - u->from_at < n || u->to_size - u->to_at < n) return false;
    memcpy(u->to + u->to_at, u->from + u->from_at, n);
    u->from_at += n;
    u->to_at += n;
    return true;
}

/* What is repeated may reach into what it becomes. */
static void repeat(uint8_t *to, size_t back, size_t n) {
    const uint8_t *from = to - back;
    if (back >= n) memcpy(to, from, n);
    else
        for (size_t i = 0; i < n; i++) to[i] = from[i];
}

static bool copy_back(struct unpacking *u, uint8_t first) {
    size_t n = first >> 5, needs = n == LENGTH_LONG ? 2 : 1;
    if (u->from_size - u->from_at < needs) return false;
    if (n == LENGTH_LONG) n += u->from[u->from_at++];
    n += 2;
    size_t back = ((size_t)(first & 0x1f) << 8 | u->from[u->from_at++]) + 1;
    if (back > u->to_at || u->to_size - u->to_at < n) return false;
    repeat(u->to + u->to_at, back, n);
    u->to_at += n;
    return true;
}

enum unpack_step unpack_some(struct unpacking *u, size_t bytes) {
    size_t until = u->to_size - u->to_at < bytes ? u->to_size : u->to_at + bytes;
    while (u->from_at < u->from_size && u->to_at < until) {
        uint8_t first = u->from[u->from_at++];
        if (!(first < AS_IT_IS ? copy_plain(u, first + 1u) : copy_back(u, first))) return UNPACK_WRONG;
    }
    if (u->from_at == u->from_size) return u->to_at == u->to_size ? UNPACK_DONE : UNPACK_WRONG;
    return u->to_at == u->to_size ? UNPACK_WRONG : UNPACK_MORE;
}
