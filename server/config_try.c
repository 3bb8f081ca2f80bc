#include "server/config_try.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/socket.h"
#include "server/listeners.h"

static bool wrong(const char *name, const char *directive, const char *value, const char *why) {
    fprintf(stderr, "%s: %s %s: %s\n", name, directive, value, why);
    return false;
}

static bool try_address(const char *address, const char *name) {
    char numbers[SOCKET_NUMBERS_SIZE], text[CONFIG_HOST_MAX];
    bool may_be_absent = *address == '-';
    const char *plain = address + may_be_absent, *known = listeners_numbers(plain), *error = known ? NULL : socket_look_up(plain, numbers);
    if (error) return wrong(name, "bind", address, error);
    snprintf(text, sizeof text, "%s%s", may_be_absent ? "-" : "", known ? known : numbers);
    int fd = socket_listen_tcp(text, 0, 1);
    if (fd >= 0) close(fd);
    return fd >= 0 || fd == SOCKET_ABSENT || wrong(name, "bind", address, strerror(-fd));
}

/* 0, or the errno that making something there would have. */
static int folder_error(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof folder) return ENAMETOOLONG;
    if (!slash) strcpy(folder, ".");
    else snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return access(folder, W_OK | X_OK) ? errno : 0;
}

static int file_error(const char *path) {
    struct stat s;
    if (stat(path, &s)) return errno == ENOENT ? folder_error(path) : errno;
    if (S_ISDIR(s.st_mode)) return EISDIR;
    return access(path, W_OK) ? errno : 0;
}

bool config_try(const struct config *c, const char *name) {
    bool good = true;
    int error;
    for (uint32_t i = 0; c->port && i < c->n_bind; i++)
        if (!try_address(c->bind[i], name)) good = false;
    if (*c->logfile && (error = file_error(c->logfile))) good = wrong(name, "logfile", c->logfile, strerror(error));
    if (*c->unixsocket && (error = folder_error(c->unixsocket))) good = wrong(name, "unixsocket", c->unixsocket, strerror(error));
    return good;
}
