/* Listening sockets, options, names. Ports are the system's choice; Unix paths lie in a directory of their own. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/socket.h"

static char directory[64], path[100];

static int make_directory(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "%s", "/tmp/test_socket.XXXXXX");
    if (!mkdtemp(directory)) return -1;
    snprintf(path, sizeof path, "%s/s", directory);
    return 0;
}

static int remove_directory(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static uint16_t port_of(int fd) {
    char text[SOCKET_TEXT_SIZE];
    assert_true(socket_local_text(fd, text) > 0);
    return (uint16_t)atoi(strrchr(text, ':') + 1);
}

static bool has_ipv6(void) {
    int fd = socket_listen_tcp("-::1", 0, 1);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static int connect_ipv4(uint16_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int connect_ipv6(uint16_t port) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int connect_unix(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static void names_both_ends_of_ipv4(void **state) {
    (void)state;
    char text[SOCKET_TEXT_SIZE], expected[SOCKET_TEXT_SIZE];
    int listener = socket_listen_tcp("127.0.0.1", 0, 10);
    assert_true(listener >= 0);
    assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    uint16_t port = port_of(listener);
    int client = connect_ipv4(port), server = accept(listener, NULL, NULL);
    snprintf(expected, sizeof expected, "127.0.0.1:%u", port);
    assert_int_equal(socket_peer_text(client, text), strlen(expected));
    assert_string_equal(text, expected);
    socket_local_text(server, text);
    assert_string_equal(text, expected);
    snprintf(expected, sizeof expected, "127.0.0.1:%u", port_of(client));
    socket_peer_text(server, text);
    assert_string_equal(text, expected);
    assert_true(socket_is_loopback(server));
    close(client);
    close(server);
    close(listener);
}

static void names_both_ends_of_ipv6(void **state) {
    (void)state;
    char text[SOCKET_TEXT_SIZE], expected[SOCKET_TEXT_SIZE];
    if (!has_ipv6()) skip();
    int listener = socket_listen_tcp("::1", 0, 10), client = connect_ipv6(port_of(listener)), server = accept(listener, NULL, NULL);
    snprintf(expected, sizeof expected, "[::1]:%u", port_of(client));
    socket_peer_text(server, text);
    assert_string_equal(text, expected);
    assert_true(socket_is_loopback(server));
    close(client);
    close(server);
    close(listener);
}

static void all_addresses_stand_side_by_side(void **state) {
    (void)state;
    int v4 = socket_listen_tcp("*", 0, 10);
    assert_true(v4 >= 0);
    uint16_t port = port_of(v4);
    int v6 = socket_listen_tcp("-::*", port, 10);
    assert_true(v6 >= 0 || v6 == SOCKET_ABSENT);
    close(connect_ipv4(port));
    if (v6 >= 0) {
        close(connect_ipv6(port));
        close(v6);
    }
    close(v4);
}

static void refuses_what_cannot_be(void **state) {
    (void)state;
    static const char *const nonsense[] = {"", "-", "localhost", "1.2.3.4.5", "300.1.1.1", "::1::", "*:*", "--1.2.3.4", "no such"};
    for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        if (socket_listen_tcp(nonsense[i], 0, 1) != -EINVAL) fail_msg("took '%s'", nonsense[i]);
    assert_int_equal(socket_listen_tcp("192.0.2.1", 0, 1), -EADDRNOTAVAIL); /* an address for documentation: nobody has it */
    assert_int_equal(socket_listen_tcp("-192.0.2.1", 0, 1), SOCKET_ABSENT);
    int fd = socket_listen_tcp("127.0.0.1", 0, 1);
    assert_int_equal(socket_listen_tcp("127.0.0.1", port_of(fd), 1), -EADDRINUSE);
    assert_int_equal(socket_listen_tcp("-127.0.0.1", port_of(fd), 1), -EADDRINUSE);
    assert_int_equal(socket_listen_tcp_shared("*", port_of(fd), 1), -EADDRINUSE); /* it has to agree */
    socket_share_port(fd, true);
    int wider = socket_listen_tcp_shared("*", port_of(fd), 1);
    assert_true(wider >= 0);
    close(wider);
    close(fd);
}

static void tells_addresses_from_names(void **state) {
    (void)state;
    static const char *const addresses[] = {"127.0.0.1", "::1", "*", "::*", "0.0.0.0", "::"};
    static const char *const names[] = {"localhost", "", "-127.0.0.1", "127.0.0.1 ", "host.example", "1.2.3.4.5", "::1::"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) assert_true(socket_is_address(addresses[i]));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_false(socket_is_address(names[i]));
}

static void looks_names_up(void **state) {
    (void)state;
    char numbers[SOCKET_NUMBERS_SIZE];
    assert_null(socket_look_up("localhost", numbers));
    assert_string_equal(numbers, "127.0.0.1");
    assert_non_null(socket_look_up("no-such-host.invalid", numbers));
    assert_non_null(socket_look_up("", numbers));
}

static void tunes(void **state) {
    (void)state;
    int listener = socket_listen_tcp("127.0.0.1", 0, 10), client = connect_ipv4(port_of(listener)), value;
    socklen_t size = sizeof value;
    assert_int_equal(socket_tune(client, true, 300), 0);
    getsockopt(client, IPPROTO_TCP, TCP_NODELAY, &value, &size);
    assert_true(value);
    getsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &value, &size);
    assert_true(value);
    getsockopt(client, IPPROTO_TCP, TCP_KEEPIDLE, &value, &size);
    assert_int_equal(value, 300);
    getsockopt(client, IPPROTO_TCP, TCP_KEEPINTVL, &value, &size);
    assert_int_equal(value, 100);
    assert_int_equal(socket_tune(client, false, 1), 0);
    assert_int_equal(socket_tune(client, false, 1000000), 0);
    assert_int_equal(socket_tune(client, false, 0), 0);
    getsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &value, &size);
    assert_false(value);
    assert_int_equal(socket_tune(-1, true, 0), -EBADF);
    close(client);
    close(listener);
}

static void listens_on_a_path(void **state) {
    (void)state;
    char text[SOCKET_TEXT_SIZE], expected[sizeof path + 2];
    struct stat st;
    int listener = socket_listen_unix(path, 0722, 10);
    assert_true(listener >= 0);
    assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0722);
    int client = connect_unix(), server = accept(listener, NULL, NULL);
    snprintf(expected, sizeof expected, "%s:0", path);
    assert_true(socket_peer_text(server, text) > 0);
    assert_string_equal(text, expected);
    assert_true(socket_peer_text(client, text) > 0);
    assert_string_equal(text, expected);
    assert_true(socket_is_loopback(server));
    assert_int_equal(socket_tune(server, true, 300), 0);

    assert_int_equal(socket_listen_unix(path, 0, 10), -EADDRINUSE); /* somebody answers */
    close(client);
    close(server);
    assert_int_equal(socket_listen_unix(path, 0, 10), -EADDRINUSE);
    close(listener);
    listener = socket_listen_unix(path, 0600, 10); /* nobody does */
    assert_true(listener >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    client = connect_unix();
    assert_true(client >= 0);
    close(client);
    close(listener);
    unlink(path);
}

static void leaves_other_files_alone(void **state) {
    (void)state;
    char long_path[200];
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);
    assert_int_equal(socket_listen_unix(path, 0, 10), -EEXIST);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4);
    unlink(path);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    assert_int_equal(socket_listen_unix(long_path, 0, 10), -ENAMETOOLONG);
    assert_int_equal(socket_listen_unix("", 0, 10), -EINVAL);
    assert_int_equal(socket_listen_unix("/no/such/directory/s", 0, 10), -ENOENT);
}

static void says_why_there_is_no_name(void **state) {
    (void)state;
    char text[SOCKET_TEXT_SIZE] = "old";
    assert_int_equal(socket_peer_text(-1, text), -EBADF);
    assert_string_equal(text, "");
    int fd = socket_listen_tcp("127.0.0.1", 0, 1);
    assert_int_equal(socket_peer_text(fd, text), -ENOTCONN);
    assert_false(socket_is_loopback(fd));
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_both_ends_of_ipv4),
        cmocka_unit_test(names_both_ends_of_ipv6),
        cmocka_unit_test(all_addresses_stand_side_by_side),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(tells_addresses_from_names),
        cmocka_unit_test(looks_names_up),
        cmocka_unit_test(tunes),
        cmocka_unit_test(listens_on_a_path),
        cmocka_unit_test(leaves_other_files_alone),
        cmocka_unit_test(says_why_there_is_no_name),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
