#include "server/lolwut.h"

#include <stdio.h>

#include "io/clock.h"
#include "server/conn.h"
#include "server/version.h"

#define COLUMNS 48
#define ROWS 9
#define DARTS 5

/* Darts on their way to a target, each somewhere else every time. */
static size_t draw(char *out) {
    char canvas[ROWS][COLUMNS];
    uint64_t v = now_monotonic_ns();
    memset(canvas, ' ', sizeof canvas);
    for (int i = 0; i < DARTS; i++) {
        v = v * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        size_t y = (size_t)(v >> 33) % ROWS, x = (size_t)(v >> 45) % (COLUMNS - 14);
        memcpy(&canvas[y][x], ">>--->", 6);
    }
    for (int y = 0; y < ROWS; y++) {
        int from_centre = y < ROWS / 2 ? ROWS / 2 - y : y - ROWS / 2;
        canvas[y][COLUMNS - 6 + from_centre] = '(';
        canvas[y][COLUMNS - 1] = '|';
    }
    memcpy(&canvas[ROWS / 2][COLUMNS - 3], "@", 1);
    size_t n = 0;
    for (int y = 0; y < ROWS; y++) {
        memcpy(out + n, canvas[y], COLUMNS);
        n += COLUMNS;
        out[n++] = '\n';
    }
    return n;
}

/* VERSION and the numbers behind it are checked, as Redis does; there is one picture. */
void lolwut_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    char text[ROWS * (COLUMNS + 1) + 128];
    int64_t n;
    if (argc > 2 && arg_is(&argv[1], "version"))
        for (uint32_t i = 2; i < argc; i++)
            if (!arg_int64(&argv[i], &n, r)) return;
    size_t size = draw(text);
    size += (size_t)snprintf(
        text + size, sizeof text - size, "\nRedis ver. %s (Darter %s)\n", c->thread->config->reported_redis_version, DARTER_VERSION);
    reply_verbatim(r, "txt", text, size);
}
