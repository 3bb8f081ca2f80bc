/* The load tool's command line: every form of a flag, defaults, and what is said of wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/darter-bench/options.h"

static struct options o;
static char message[OPTIONS_MESSAGE_MAX], line[4096];

/* Words divided by blanks; "" is an empty word. */
static bool parse(const char *words) {
    char *argv[64] = {(char *)"darter-bench"};
    int argc = 1;
    strcpy(line, words);
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) argv[argc++] = strcmp(word, "\"\"") ? word : word + 2;
    message[0] = 0;
    return options_read(&o, argc, argv, message);
}

static void assert_refused(const char *words, const char *said) {
    if (parse(words)) fail_msg("%s: accepted", words);
    if (!strstr(message, said)) fail_msg("%s: said '%s', not '%s'", words, message, said);
}

static void has_the_defaults_of_dfly_bench(void **state) {
    (void)state;
    assert_true(parse(""));
    assert_string_equal(o.host, "localhost");
    assert_true(o.port == 6379 && o.connections == 20 && o.requests == 1000 && o.qps == 20 && o.pipeline == 1 && o.test_time_s == 0 &&
        o.threads == 0);
    assert_true(o.size_min == 16 && o.size_max == 16 && o.ratio_set == 1 && o.ratio_get == 10);
    assert_true(
        o.key_minimum == 0 && o.key_maximum == 50000000 && o.key_dist == 'U' && o.key_stddev == 0 && o.zipf_alpha == 0.99 && o.seed == 42);
    assert_string_equal(o.key_prefix, "key:");
    assert_string_equal(o.command, "");
    assert_true(o.greet && o.random_data && o.ascii && !o.tcp_nodelay && !o.connect_only && !o.help && !o.plot);
}

static void takes_every_form_of_a_flag(void **state) {
    (void)state;
    static const char *const forms[] = {"--qps=9500", "--qps 9500", "-qps 9500", "-qps=9500", "--qps=1 --qps=9500"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!parse(forms[i])) fail_msg("%s: %s", forms[i], message);
        assert_int_equal(o.qps, 9500);
    }
    static const char *const no[] = {"--nogreet", "-nogreet", "--greet=false", "-greet=0", "--greet=no", "--greet=f", "--greet --nogreet"};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        if (!parse(no[i])) fail_msg("%s: %s", no[i], message);
        assert_false(o.greet);
    }
    static const char *const yes[] = {
        "--tcp_nodelay", "-tcp_nodelay", "--tcp_nodelay=true", "--tcp_nodelay=1", "--notcp_nodelay --tcp_nodelay=yes"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (!parse(yes[i])) fail_msg("%s: %s", yes[i], message);
        assert_true(o.tcp_nodelay);
    }
}

/* As they stand in announcements and in other projects' scripts. */
static void takes_published_command_lines(void **state) {
    (void)state;
    assert_true(
        parse("-n 1000000 -p 6380 --qps=0 -d 64 --key_maximum=110000000 -c 10 --pipeline 30 --ratio 1:0 --json_out_file df_write.json"));
    assert_true(o.requests == 1000000 && o.port == 6380 && o.size_max == 64 && o.key_maximum == 110000000 && o.pipeline == 30 &&
        o.ratio_set == 1 && o.ratio_get == 0);
    assert_string_equal(o.json_out_file, "df_write.json");
    assert_true(parse("-c 2 --test_time=10 --ratio=0:10 --qps=1000 --proactor_threads 2"));
    assert_true(o.connections == 2 && o.test_time_s == 10 && o.threads == 2);
    assert_true(parse("--probe_cluster=false --noprobe_cluster --cluster_skip_tags --logtostderr --noreply=false -P \"\""));
    assert_true(parse("-h 10.0.0.1 --key_dist=Z --zipf_alpha=1 -d 32:1024 --command get"));
    assert_true(o.key_dist == 'Z' && o.zipf_alpha == 1 && o.size_min == 32 && o.size_max == 1024);
}

static void takes_the_edges_of_ranges(void **state) {
    (void)state;
    assert_true(
        parse("--key_minimum=18446744073709551615 --key_maximum=18446744073709551615 --seed=18446744073709551615 -n 18446744073709551615"));
    assert_true(o.key_minimum == UINT64_MAX && o.key_maximum == UINT64_MAX && o.seed == UINT64_MAX && o.requests == UINT64_MAX);
    assert_true(parse("-p 65535 -d 0 --qps=-5 --zipf_alpha=0 --key_stddev=0"));
    assert_true(o.port == 65535 && o.size_min == 0 && o.qps == -5 && o.zipf_alpha == 0);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    assert_refused("--qps=abc", "--qps=abc: not a whole number from -1000000000 to 1000000000");
    assert_refused("-p 0", "--p=0: not a whole number from 1 to 65535");
    assert_refused("-p 65536", "from 1 to 65535");
    assert_refused("-c -1", "from 1 to");
    assert_refused("-c 1.5", "whole number");
    assert_refused("-c 5x", "whole number");
    assert_refused("--seed=18446744073709551616", "from 0 to 18446744073709551615");
    assert_refused("--zipf_alpha=-1", "not a number from 0 to 100");
    assert_refused("--zipf_alpha=nan", "not a number from 0 to 100");
    assert_refused("--key_dist=X", "not U, N, Z or S");
    assert_refused("--key_dist=UN", "not U, N, Z or S");
    assert_refused("-d 10:5", "min:max");
    assert_refused("-d 5:", "min:max");
    assert_refused("--ratio=1", "not set:get");
    assert_refused("--ratio=0:0", "not set:get");
    assert_refused("--io=kqueue", "not auto, uring or epoll");
    assert_refused("--greet=maybe", "neither true nor false");
    assert_refused("--key_minimum=5 --key_maximum=4", "--key_minimum is above --key_maximum");
    assert_refused("--user=me", "--user needs --password");
    assert_refused("-P memcache_text", "RESP is the only protocol");
    assert_refused("--noreply", "memcached");
    assert_refused("--qps=1000000000 -c 1000", "10000000000 requests a second");
}

static void says_what_belongs_to_no_flag(void **state) {
    (void)state;
    assert_refused("--frobnicate", "--frobnicate: there is no such flag");
    assert_refused("--frobnicate=1", "there is no such flag");
    assert_refused("--noqps", "there is no such flag");
    assert_refused("---qps=1", "there is no such flag");
    assert_refused("--nogreet=1", "there is no such flag");
    assert_refused("--greet false", "'false' belongs to no flag");
    assert_refused("-", "belongs to no flag");
    assert_refused("--qps", "--qps needs a value");
    assert_refused("-h", "-h needs a value");
}

static void plots_with_and_without_a_name(void **state) {
    (void)state;
    assert_true(parse("--plot"));
    assert_string_equal(o.plot, "darter-bench.svg");
    assert_true(parse("--plot --qps=1"));
    assert_string_equal(o.plot, "darter-bench.svg");
    assert_true(parse("--plot=a.svg"));
    assert_string_equal(o.plot, "a.svg");
    assert_true(parse("--plot a.svg -c 1"));
    assert_string_equal(o.plot, "a.svg");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_defaults_of_dfly_bench),
        cmocka_unit_test(takes_every_form_of_a_flag),
        cmocka_unit_test(takes_published_command_lines),
        cmocka_unit_test(takes_the_edges_of_ranges),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(says_what_belongs_to_no_flag),
        cmocka_unit_test(plots_with_and_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
