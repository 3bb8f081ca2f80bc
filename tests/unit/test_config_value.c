#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_table.h"
#include "server/thread.h"

struct server server; /* main.c's; the table's functions lead to the whole server */

static struct config *c;

static int start(void **state) { return (c = config_defaults()) ? 0 : -1; }

static int end(void **state) {
    free(c);
    return 0;
}

static bool reads(const char *name, const char *text) {
    char why[DIRECTIVE_WHY_MAX] = "";
    bool good = directive_read_text(directive_find(name), c, text, why);
    assert_true(good || *why);
    return good;
}

static void shows(const char *name, const char *text) {
    char shown[DIRECTIVE_SHOW_MAX];
    directive_show(directive_find(name), c, shown);
    assert_string_equal(shown, text);
}

/* What a group's title says of its rows is true. */
static void groups_say_what_has_an_effect(void **state) {
    const char *title = "";
    for (const struct directive *d = directives; d->doc; d++) {
        if (!d->name) title = d->doc;
        else if (!strncmp(title, "Accepted, no effect yet", 23)) assert_int_equal(d->flags & DIRECTIVE_IDLE, DIRECTIVE_YET);
        else if (!strncmp(title, "Accepted, never needed", 22)) assert_int_equal(d->flags & DIRECTIVE_IDLE, DIRECTIVE_NEEDLESS);
        else assert_false(d->flags & DIRECTIVE_IDLE);
    }
}

static void every_row_is_whole(void **state) {
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        assert_non_null(d->doc);
        assert_non_null(d->fall_back);
        assert_true(*d->doc && strlen(d->doc) < 200 && d->doc[strlen(d->doc) - 1] != '.');
        assert_ptr_equal(directive_find(d->name), d);
        if (d->alias) assert_ptr_equal(directive_find(d->alias), d);
        for (const struct directive *e = NULL; (e = directive_next(e));)
            assert_true(d == e || (strcmp(d->name, e->name) && d->at != e->at));
        assert_true((d->kind == DIRECTIVE_CHOICE) == (d->names != NULL));
        assert_true((d->flags & DIRECTIVE_IDLE) != DIRECTIVE_IDLE);
    }
}

/* What is shown can be read, and is shown the same then. */
static void every_default_reads_back(void **state) {
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        char shown[DIRECTIVE_SHOW_MAX];
        directive_show(d, c, shown);
        assert_true(reads(d->name, shown));
        shows(d->name, shown);
    }
}

static void bytes_have_units(void **state) {
    static const struct {
        const char *text, *shown;
    } good[] = {{"0", "0"}, {"1b", "1"}, {"1k", "1000"}, {"1kb", "1024"}, {"1M", "1000000"}, {"1MB", "1048576"}, {"1g", "1000000000"},
        {"2Gb", "2147483648"}, {"9223372036854775807", "9223372036854775807"}};
    static const char *const bad[] = {
        "", "x", "k", "-1", "+1", " 1", "1 ", "1.5mb", "1tb", "1mbb", "9223372036854775808", "9223372036854775807kb", "5%"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(reads("maxmemory", good[i].text));
        shows("maxmemory", good[i].shown);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(reads("maxmemory", bad[i]));
    shows("maxmemory", "9223372036854775807");
}

static void numbers_are_strict(void **state) {
    static const char *const bad[] = {"", " 1", "1 ", "+1", "01", "0x1", "1.0", "-1", "65536", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(reads("port", bad[i]));
    assert_true(reads("port", "0") && reads("port", "65535"));
    assert_true(reads("slowlog-log-slower-than", "-1"));
    assert_false(reads("slowlog-log-slower-than", "-2"));
    assert_true(reads("unixsocketperm", "0700"));
    shows("unixsocketperm", "700");
    assert_false(
        reads("unixsocketperm", "8") || reads("unixsocketperm", "1777") || reads("unixsocketperm", "") || reads("unixsocketperm", "-7"));
}

static void a_text_too_long_is_refused(void **state) {
    char text[CONFIG_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    text[CONFIG_TEXT_MAX] = 0;
    assert_false(reads("requirepass", text));
    text[CONFIG_TEXT_MAX - 1] = 0;
    assert_true(reads("requirepass", text));
    shows("requirepass", text);
}

static void many_words_are_bounded(void **state) {
    char text[DIRECTIVE_SHOW_MAX] = "";
    for (int i = 0; i < 17; i++) strcat(text, "::1 ");
    assert_false(reads("bind", text));
    text[16 * 4 - 1] = 0;
    assert_true(reads("bind", text));
    shows("bind", text);
    *text = 0;
    for (int i = 0; i < 33; i++) strcat(text, i ? " 1 1" : "1 1");
    assert_false(reads("save", text));
    text[strlen(text) - 4] = 0;
    assert_true(reads("save", text));
    shows("save", text);
    memset(text, ' ', sizeof text);
    text[DIRECTIVE_SHOW_MAX - 1] = 0;
    assert_false(reads("save", text));
}

static void words_come_one_by_one_too(void **state) {
    char why[DIRECTIVE_WHY_MAX], one[] = "900", two[] = "1", nothing[] = "", *words[] = {one, two}, *none[] = {nothing};
    c->n_save = 0;
    assert_true(directive_read(directive_find("save"), c, words, 2, why));
    assert_true(directive_read(directive_find("save"), c, words, 2, why));
    shows("save", "900 1 900 1");
    assert_true(directive_read(directive_find("save"), c, none, 1, why));
    shows("save", "");
    assert_false(directive_read(directive_find("timeout"), c, words, 2, why));
    assert_string_equal(why, "wrong number of arguments");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_say_what_has_an_effect),
        cmocka_unit_test_setup_teardown(every_row_is_whole, start, end),
        cmocka_unit_test_setup_teardown(every_default_reads_back, start, end),
        cmocka_unit_test_setup_teardown(bytes_have_units, start, end),
        cmocka_unit_test_setup_teardown(numbers_are_strict, start, end),
        cmocka_unit_test_setup_teardown(a_text_too_long_is_refused, start, end),
        cmocka_unit_test_setup_teardown(many_words_are_bounded, start, end),
        cmocka_unit_test_setup_teardown(words_come_one_by_one_too, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
