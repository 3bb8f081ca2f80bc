/* The proactor: every test runs over both back ends, and those about streams over both Unix and TCP sockets. */
#include <pthread.h>
#include <sys/eventfd.h>

#include "test_proactor.h"

/* ---- streams ---- */

static void echoes(struct world *w) {
    open_world(w, 4096, 8);
    open_conns(w, 1);
    struct conn *c = &w->conns[0];
    char out[20000];
    uint64_t back = 0;
    for (unsigned i = 0; i < 500; i++) {
        size_t n = 1 + i * 37 % sizeof out;
        assert_int_equal(put(c, n), n);
        UNTIL(w, c->received == c->put);
        fill(out, 0, back, n);
        uint64_t end = back + n;
        send_whole(w, c, out, n);
        while (back < end) get(c, &back, end - back);
    }
    assert_sleeps(w);
    close_world(w);
}

static void serves_many_streams_with_few_buffers(struct world *w) {
    open_world(w, 512, 16);
    open_conns(w, 200);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < w->count; i++) put(&w->conns[i], 1 + (i * 7 + round * 131) % 3000);
        for (unsigned i = 0; i < w->count; i++) UNTIL(w, w->conns[i].received == w->conns[i].put);
    }
    assert_sleeps(w);
    close_world(w);
}

/* More changes in one turn than a submission queue holds. */
static void takes_more_work_than_the_queue(struct world *w) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &files);
    unsigned count = files.rlim_cur > 5000 ? 2000 : 200;
    open_world(w, 512, 64);
    open_conns(w, count);
    for (unsigned i = 0; i < count; i++) put(&w->conns[i], 100);
    for (unsigned i = 0; i < count; i++) UNTIL(w, w->conns[i].received == 100);
    char bytes[100];
    fill(bytes, 0, 0, sizeof bytes);
    unsigned out = 0, sents = 0;
    for (unsigned i = 0; i < count; i++) out += !proactor_send(w->p, &w->conns[i].s, &(struct iovec){bytes, sizeof bytes}, 1);
    for (unsigned i = 0; i < count; i++) {
        if (w->way->kind == PROACTOR_URING) UNTIL(w, w->conns[i].sents == 1);
        sents += w->conns[i].sents;
        assert_int_equal(recv(w->conns[i].peer, (char[200]){0}, 200, 0), sizeof bytes);
    }
    assert_int_equal(sents, out);
    close_world(w);
}

/* 16-byte buffers: one big write is more completions than the queue of completions holds. */
static void survives_a_full_completion_queue(struct world *w) {
    open_world(w, 16, 32768);
    open_conns(w, 4);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < w->count; i++) put(&w->conns[i], 200000);
        for (unsigned i = 0; i < w->count; i++) UNTIL(w, w->conns[i].received == w->conns[i].put);
    }
    assert_sleeps(w);
    close_world(w);
}

static void says_end_of_file_and_still_sends(struct world *w) {
    open_world(w, 4096, 8);
    open_conns(w, 1);
    struct conn *c = &w->conns[0];
    put(c, 10);
    shutdown(c->peer, SHUT_WR);
    UNTIL(w, c->closes);
    assert_int_equal(c->received, 10);
    assert_int_equal(c->close_result, 0);
    char out[100];
    fill(out, 0, 0, sizeof out);
    send_whole(w, c, out, sizeof out);
    uint64_t back = 0;
    while (back < sizeof out) get(c, &back, sizeof out);
    assert_sleeps(w);
    assert_int_equal(c->closes, 1);
    close_world(w);
}

static void reset_peer(struct world *w, struct conn *c) {
    setsockopt(c->peer, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    if (!w->way->tcp) assert_int_equal(send(c->s.fd, "unread", 6, 0), 6); /* a Unix socket resets what its end did not read */
    close(c->peer);
}

static void says_reset(struct world *w) {
    open_world(w, 4096, 8);
    open_conns(w, 2);
    struct conn *c = &w->conns[0];
    turn(w, 0);
    reset_peer(w, c);
    UNTIL(w, c->closes);
    assert_int_equal(c->close_result, -ECONNRESET);
    assert_false(proactor_send(w->p, &c->s, &(struct iovec){(char[1]){0}, 1}, 1));
    UNTIL(w, c->sents);
    assert_true(c->sent_result == -EPIPE || c->sent_result == -ECONNRESET);
    assert_sleeps(w);
    close_world(w);
}

static void pauses_and_resumes(struct world *w) {
    open_world(w, 4096, 8);
    open_conns(w, 2);
    struct conn *c = &w->conns[0];
    for (unsigned round = 0; round < 20; round++) {
        put(c, 5000);
        UNTIL(w, c->received == c->put);
        proactor_pause(w->p, &c->s);
        drain(w);
        uint64_t before = c->received;
        put(c, 5000);
        assert_sleeps(w);
        assert_int_equal(c->received, before);
        proactor_resume(w->p, &c->s);
        proactor_pause(w->p, &c->s);
        proactor_resume(w->p, &c->s);
        UNTIL(w, c->received == c->put);
    }
    proactor_pause(w->p, &c->s); /* a reset must not keep a paused stream's thread awake */
    drain(w);
    reset_peer(w, c);
    assert_sleeps(w);
    assert_int_equal(c->closes, 0);
    proactor_resume(w->p, &c->s);
    UNTIL(w, c->closes == 1);
    close_world(w);
}

/* ---- receiving straight into a place ---- */

static void receive_into(struct world *w, struct conn *c, char *place, size_t size) {
    c->place = place;
    c->place_left = size;
    proactor_recv_into(w->p, &c->s, place, size);
}

static void receives_into_a_place(struct world *w) {
    enum { SIZE = 3000000 };
    open_world(w, 4096, 8);
    open_conns(w, 2);
    struct conn *c = &w->conns[1];
    char *place = malloc(SIZE);
    for (unsigned round = 0; round < 6; round++) {
        put(c, 1000 * round); /* what comes before the place is known */
        if (round & 1) UNTIL(w, c->received == c->put);
        uint64_t end = c->received + SIZE, start = c->received;
        memset(place, 0, SIZE);
        receive_into(w, c, place, SIZE);
        unsigned directs = w->directs;
        while (c->place_left) {
            put(c, end + 500 - c->put < 100000 ? end + 500 - c->put : 100000);
            turn(w, 0);
        }
        check(place, 1, start, SIZE);
        assert_true(w->directs > directs);
        put(c, end + 500 - c->put);
        UNTIL(w, c->received == c->put); /* what follows comes in buffers again */
    }
    assert_sleeps(w);
    free(place);
    close_world(w);
}

static void stops_receiving_into_a_place(struct world *w) {
    char place[1000];
    open_world(w, 4096, 8);
    open_conns(w, 1);
    struct conn *c = &w->conns[0];
    for (unsigned round = 0; round < 10; round++) {
        drain(w);
        receive_into(w, c, place, sizeof place);
        drain(w);
        put(c, 100);
        UNTIL(w, c->received == c->put);
        assert_int_equal(w->directs, round + 1);
        if (round & 1) drain(w); /* the next receive is out already, or not yet */
        receive_into(w, c, NULL, 0);
        drain(w);
        put(c, 100);
        UNTIL(w, c->received == c->put);
        assert_int_equal(w->directs, round + 1);
    }
    receive_into(w, c, place, sizeof place);
    shutdown(c->peer, SHUT_WR);
    UNTIL(w, c->closes);
    assert_int_equal(c->close_result, 0);
    close_world(w);
}

/* A place needs no buffer, so it must fill while there is none. */
static void receives_into_a_place_without_buffers(struct world *w) {
    char place[1000];
    open_world(w, 64, 2);
    open_conns(w, 2);
    struct conn *c = &w->conns[1];
    w->hold = true;
    put(&w->conns[0], 1000);
    UNTIL(w, w->held_count == 2);
    put(c, sizeof place);
    assert_sleeps(w);
    assert_int_equal(c->received, 0);
    receive_into(w, c, place, sizeof place);
    UNTIL(w, !c->place_left);
    check(place, 1, 0, sizeof place);
    w->hold = false;
    give_held(w);
    put(c, 10);
    UNTIL(w, c->received == c->put && w->conns[0].received == 1000);
    close_world(w);
}

/* ---- too few buffers ---- */

static void shares_buffers_fairly(struct world *w) {
    enum { STREAMS = 8, BYTES = 100000 };
    open_world(w, 1024, 4);
    open_conns(w, STREAMS);
    w->hold = true;
    uint64_t most = 0, least = 0;
    for (unsigned i = 0; i < STREAMS; i++) put(&w->conns[i], BYTES);
    for (unsigned round = 0; least < BYTES; round++) {
        assert_true(round < STREAMS * BYTES);
        UNTIL(w, w->held_count == 4 || w->conns[0].received == w->conns[0].put);
        assert_int_equal(proactor_free_buffers(w->p), 4 - w->held_count);
        if (round < 3) assert_sleeps(w);
        give_held(w);
        drain(w);
        give_held(w);
        most = 0;
        least = UINT64_MAX;
        for (unsigned i = 0; i < STREAMS; i++) {
            struct conn *c = &w->conns[i];
            if (c->put < 2 * BYTES) put(c, 2000); /* always more to come */
            if (c->received > most) most = c->received;
            if (c->received < least) least = c->received;
        }
        /* One in four of the buffers is a round's whole share of a stream; none may be left behind by more than a few rounds. */
        if (least < BYTES / 2) assert_true(most - least <= 64 * 1024);
    }
    w->hold = false;
    give_held(w);
    for (unsigned i = 0; i < STREAMS; i++) UNTIL(w, w->conns[i].received == w->conns[i].put);
    close_world(w);
}

/* What few streams bring goes through few buffers, which stay in the caches, and the others' memory is never touched; all are there when they are needed. */
static void few_buffers_go_round(struct world *w) {
    enum { BUFFERS = 256, STREAMS = 100 };
    open_world(w, 4096, BUFFERS);
    open_conns(w, STREAMS);
    for (unsigned round = 0; round < 2 * BUFFERS; round++) {
        put(&w->conns[round % 4], 100);
        UNTIL(w, w->conns[round % 4].received == w->conns[round % 4].put);
    }
    assert_in_range(w->buffers_seen, 1, 16);
    w->hold = true;
    for (unsigned i = 0; i < STREAMS; i++) put(&w->conns[i], 100);
    for (unsigned i = 0; i < STREAMS; i++) UNTIL(w, w->conns[i].received == w->conns[i].put);
    assert_int_equal(w->held_count, STREAMS);
    for (unsigned i = 0; proactor_free_buffers(w->p); i++) {
        struct conn *c = &w->conns[i % STREAMS];
        put(c, 1000);
        UNTIL(w, c->received == c->put || !proactor_free_buffers(w->p));
    }
    assert_int_equal(w->buffers_seen, BUFFERS);
    w->hold = false;
    give_held(w);
    for (unsigned i = 0; i < STREAMS; i++) UNTIL(w, w->conns[i].received == w->conns[i].put);
    assert_sleeps(w);
    close_world(w);
}

static void goes_on_when_buffers_come_back(struct world *w) {
    open_world(w, 1024, 4);
    open_conns(w, 3);
    w->hold = true;
    for (unsigned i = 0; i < 3; i++) put(&w->conns[i], 50000);
    UNTIL(w, w->held_count == 4);
    assert_sleeps(w);
    proactor_pause(w->p, &w->conns[0].s);  /* a starved stream may pause, */
    proactor_remove(w->p, &w->conns[1].s); /* and go */
    UNTIL(w, w->conns[1].removes);
    uint64_t paused_at = w->conns[0].received;
    w->hold = false;
    give_held(w);
    UNTIL(w, w->conns[2].received == 50000);
    assert_sleeps(w);
    assert_int_equal(w->conns[0].received, paused_at);
    proactor_resume(w->p, &w->conns[0].s);
    UNTIL(w, w->conns[0].received == 50000);
    w->conns[1].removes = 1;
    close_world(w);
}

/* ---- sending ---- */

static void sends_to_a_slow_reader(struct world *w) {
    enum { SIZE = 8 << 20 };
    open_world(w, 4096, 8);
    open_conns(w, 2);
    struct conn *c = &w->conns[1], *other = &w->conns[0];
    char *bytes = malloc(SIZE);
    fill(bytes, 1, 0, SIZE);
    assert_false(proactor_send(w->p, &c->s, &(struct iovec){bytes, SIZE}, 1));
    assert_sleeps(w);
    assert_int_equal(c->sents, 0);
    put(other, 10); /* the others are served meanwhile */
    UNTIL(w, other->received == 10);
    uint64_t at = 0;
    while (at < SIZE) {
        if (!get(c, &at, 30000)) turn(w, 0);
        if (c->sents) assert_true(at > 0);
    }
    UNTIL(w, c->sents == 1);
    assert_int_equal(c->sent_result, 0);
    assert_sleeps(w);
    free(bytes);
    close_world(w);
}

static void sends_64_pieces(struct world *w) {
    enum { SIZE = 4 << 20 };
    open_world(w, 4096, 8);
    open_conns(w, 1);
    struct conn *c = &w->conns[0];
    char *bytes = malloc(SIZE);
    uint64_t at = 0, sent = 0;
    for (unsigned round = 0; round < 4; round++) {
        struct iovec iov[64];
        size_t used = 0, size = round & 1 ? SIZE : 6400;
        fill(bytes, 0, sent, size);
        for (unsigned i = 0; i < 64; i++) { /* of all sizes, and empty ones at both ends and between */
            size_t n = i == 62 ? size - used : i % 5 == 0 ? 0 : size / 64 - i;
            if (i == 63) n = 0;
            iov[i] = (struct iovec){bytes + used, n};
            used += n;
        }
        assert_int_equal(used, size);
        unsigned sents = c->sents;
        bool whole = proactor_send(w->p, &c->s, iov, 64);
        memset(iov, 0xff, sizeof iov); /* it was copied */
        sent += size;
        while (at < sent)
            if (!get(c, &at, 100000)) turn(w, 0);
        if (!whole) UNTIL(w, c->sents == sents + 1);
        assert_int_equal(c->sent_result, 0);
    }
    assert_true(proactor_send(w->p, &c->s, &(struct iovec){bytes, 0}, 1));
    free(bytes);
    close_world(w);
}

/* All of iov's bytes lie at `bytes`, one behind the other. */
static void cut(struct proactor *p, const char *bytes, const struct iovec *iov, unsigned n, size_t total) {
    struct stream s = {0};
    size_t at = 0;
    assert_true(backend_keep_send(p, &s, iov, n, total));
    for (unsigned turn = 0; at < total; turn++) {
        struct send_slice x = backend_next_slice(&s);
        size_t size = x.message ? 0 : x.size;
        if (!x.message) assert_ptr_equal(x.at, bytes + at);
        for (size_t i = 0; x.message && i < x.message->msg_iovlen; i++) {
            assert_ptr_equal(x.message->msg_iov[i].iov_base, bytes + at + size);
            size += x.message->msg_iov[i].iov_len;
        }
        assert_in_range(size, 1, IO_SLICE_BYTES);
        size_t taken = turn % 3 ? size : size / 2 + 1; /* a socket may take less */
        at += taken;
        assert_int_equal(backend_sent(&s, taken), at == total);
    }
    backend_end_send(p, &s);
}

static void cuts_long_sends_into_slices(struct world *w) {
    enum { SIZE = 8 << 20 };
    open_world(w, 4096, 8);
    char *bytes = malloc(SIZE);
    struct iovec iov[64];
    for (unsigned large = 0; large < 64; large += 21) { /* at both ends and between, and more than one */
        size_t used = 0;
        for (unsigned i = 0; i < 64; i++) {
            size_t n = i % 21 == large % 21 && i >= large ? IO_SLICE_BYTES * (size_t)(1 + i % 3) + i : i % 5 == 3 ? 0 : 20000 - i;
            iov[i] = (struct iovec){bytes + used, n};
            used += n;
        }
        assert_true(used <= SIZE);
        cut(w->p, bytes, iov, 64, used);
    }
    cut(w->p, bytes, &(struct iovec){bytes, SIZE}, 1, SIZE);
    cut(w->p, bytes, &(struct iovec){bytes, 1}, 1, 1);
    cut(w->p, bytes, (struct iovec[]){{bytes, 0}, {bytes, SIZE}}, 2, SIZE);
    free(bytes);
    close_world(w);
}

static void removes_a_stream_that_sends(struct world *w) {
    enum { SIZE = 8 << 20 };
    open_world(w, 4096, 8);
    open_conns(w, 4);
    char *bytes = calloc(1, SIZE);
    for (unsigned i = 0; i < 4; i++) {
        struct conn *c = &w->conns[i];
        struct iovec iov[2] = {{bytes, SIZE / 2}, {bytes, SIZE / 2}};
        put(c, 1000); /* that nobody will see */
        if (i & 1) drain(w);
        assert_false(proactor_send(w->p, &c->s, iov, 1 + i / 2));
        if (i & 1) drain(w);
        proactor_remove(w->p, &c->s);
        UNTIL(w, c->removes);
        assert_int_equal(c->sents, 1);
        assert_true(c->sent_result < 0);
        assert_int_equal(c->closes, 0);
    }
    free(bytes);
    close_world(w);
}

/* ---- anything, in any order ---- */

static uint64_t random_below(uint64_t n) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

enum { OUT_BYTES = 400000 };

/* What the random test keeps of a stream: a place for recv_into, and what is being sent. */
struct script {
    char place[5000], out[OUT_BYTES];
    uint64_t sent, got; /* by us, by the peer */
    unsigned sents;
};

static void replace_conn(struct world *w, struct conn *c, struct script *script) {
    proactor_remove(w->p, &c->s);
    UNTIL(w, c->removes);
    close(c->peer);
    int pair[2];
    make_pair(w->way->tcp, pair);
    *c = (struct conn){.s.fd = pair[0], .peer = pair[1], .id = c->id + 16};
    script->sent = script->got = script->sents = 0;
    assert_int_equal(proactor_add(w->p, &c->s), 0);
}

static void send_pieces(struct world *w, struct conn *c, struct script *script) {
    if (script->sents != c->sents) return; /* one is out */
    size_t size = 1 + (random_below(8) ? random_below(3000) : random_below(OUT_BYTES)), used = 0;
    unsigned pieces = 1 + (unsigned)random_below(4);
    struct iovec iov[4];
    fill(script->out, c->id, script->sent, size);
    for (unsigned i = 0; i < pieces; i++) {
        iov[i] = (struct iovec){script->out + used, i + 1 == pieces ? size - used : random_below(size - used + 1)};
        used += iov[i].iov_len;
    }
    script->sent += size;
    if (!proactor_send(w->p, &c->s, iov, pieces)) script->sents++;
}

static void does_whatever_is_asked_in_any_order(struct world *w) {
    enum { STREAMS = 12, STEPS = 30000 };
    struct script *scripts = calloc(STREAMS, sizeof *scripts);
    open_world(w, 256, 8);
    open_conns(w, STREAMS);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)random_below(STREAMS);
        struct conn *c = &w->conns[i];
        struct script *script = &scripts[i];
        switch (random_below(12)) {
        case 0:
        case 1:
        case 2: put(c, random_below(2000)); break;
        case 3: proactor_pause(w->p, &c->s); break;
        case 4: proactor_resume(w->p, &c->s); break;
        case 5:
            if (!c->place_left) receive_into(w, c, script->place, 1 + random_below(sizeof script->place - 1));
            break;
        case 6: w->hold = random_below(2); break;
        case 7: send_pieces(w, c, script); break;
        case 8: get(c, &script->got, random_below(100000)); break;
        case 9: give_held(w); break;
        case 10:
            if (!random_below(20)) replace_conn(w, c, script);
            break;
        case 11: turn(w, 0); break;
        }
        if (random_below(2)) turn(w, 0);
    }
    w->hold = false;
    give_held(w);
    for (unsigned i = 0; i < STREAMS; i++) {
        struct conn *c = &w->conns[i];
        proactor_resume(w->p, &c->s);
        UNTIL(w, c->received == c->put);
        while (scripts[i].got < scripts[i].sent)
            if (!get(c, &scripts[i].got, 100000)) turn(w, 0);
        UNTIL(w, c->sents == scripts[i].sents);
        assert_true(!c->sent_result && !c->closes);
    }
    assert_sleeps(w);
    close_world(w);
    free(scripts);
}

/* ---- accepting ---- */

static void close_accepted(struct world *w, unsigned from) {
    for (unsigned i = from; i < w->accepts; i++) close(w->accepted[i % 256]);
}

static void accepts(struct world *w) {
    struct sockaddr_in a;
    int listener = listen_anywhere(&a), fds[200];
    open_world(w, 4096, 8);
    assert_int_equal(proactor_listen(w->p, -1, 0), -EBADF);
    assert_int_equal(proactor_listen(w->p, listener, 77), 0);
    assert_sleeps(w);
    for (unsigned i = 0; i < 200; i++) {
        fds[i] = connect_to(&a);
        if (i % 50 == 0) UNTIL(w, w->accepts == i + 1);
    }
    UNTIL(w, w->accepts == 200);
    assert_int_equal(w->accept_tag, 77);
    assert_true(fcntl(w->accepted[0], F_GETFD) & FD_CLOEXEC);
    assert_sleeps(w);
    proactor_unlisten(w->p, listener);
    close(listener);
    drain(w);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(late, (struct sockaddr *)&a, sizeof a), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(late);
    close_accepted(w, 0);
    for (unsigned i = 0; i < 200; i++) close(fds[i]);

    listener = listen_anywhere(&a); /* and may listen again */
    assert_int_equal(proactor_listen(w->p, listener, 78), 0);
    fds[0] = connect_to(&a);
    UNTIL(w, w->accepts == 201);
    assert_int_equal(w->accept_tag, 78);
    close_accepted(w, 200);
    close(fds[0]);
    proactor_close(w->p);
    close(listener);
}

/* One of two gives up; the other goes on, and so does what took its place. */
static void gives_up_one_listener(struct world *w) {
    struct sockaddr_in a, b;
    int one = listen_anywhere(&a), other = listen_anywhere(&b), fd;
    open_world(w, 4096, 8);
    assert_int_equal(proactor_listen(w->p, one, 1), 0);
    assert_int_equal(proactor_listen(w->p, other, 2), 0);
    for (unsigned i = 0; i < 100; i++) {
        fd = connect_to(&b);
        UNTIL(w, w->accepts == 2 * i + 1);
        assert_int_equal(w->accept_tag, 2);
        close(fd);
        proactor_unlisten(w->p, one);
        shutdown(one, SHUT_RDWR);
        close(one);
        one = listen_anywhere(&a);
        assert_int_equal(proactor_listen(w->p, one, 3 + i), 0);
        fd = connect_to(&a);
        UNTIL(w, w->accepts == 2 * i + 2);
        assert_int_equal(w->accept_tag, 3 + i);
        close(fd);
        close_accepted(w, 2 * i);
    }
    assert_int_equal(w->accept_errors, 0);
    assert_sleeps(w);
    proactor_close(w->p);
    close(one);
    close(other);
}

/* ---- connecting ---- */

/* A listening socket of the world's sort, in its own namespace. Returns it and where it is. */
static int listen_for(struct world *w, struct sockaddr_storage *a, socklen_t *size, int backlog) {
    *a = (struct sockaddr_storage){.ss_family = w->way->tcp ? AF_INET : AF_UNIX};
    *size = w->way->tcp ? sizeof(struct sockaddr_in) : sizeof(sa_family_t); /* a Unix socket: the kernel finds a name */
    if (w->way->tcp) ((struct sockaddr_in *)a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)a, *size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    *size = sizeof *a;
    assert_int_equal(getsockname(fd, (struct sockaddr *)a, size), 0);
    return fd;
}

static void start_connecting(struct world *w, unsigned count, const struct sockaddr_storage *a, socklen_t size) {
    w->conns = calloc(count, sizeof *w->conns);
    w->count = count;
    for (unsigned i = 0; i < count; i++) {
        struct conn *c = &w->conns[i];
        *c = (struct conn){.s.fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .peer = -1, .id = i};
        assert_int_equal(proactor_connect(w->p, &c->s, (const struct sockaddr *)a, size), 0);
    }
}

static void connects_and_receives(struct world *w) {
    struct sockaddr_storage a;
    socklen_t size;
    open_world(w, 4096, 8);
    int listener = listen_for(w, &a, &size, 64);
    start_connecting(w, 40, &a, size);
    for (unsigned i = 0; i < w->count; i++) {
        UNTIL(w, w->conns[i].connects);
        assert_int_equal(w->conns[i].connect_result, 0);
    }
    /* Each accepted socket belongs to the stream whose number it is told. */
    for (unsigned i = 0; i < w->count; i++) send_whole(w, &w->conns[i], &(char){(char)i}, 1);
    for (unsigned i = 0; i < w->count; i++) {
        char id;
        int peer = accept(listener, NULL, NULL);
        assert_int_equal(recv(peer, &id, 1, 0), 1);
        assert_true((unsigned)id < w->count && w->conns[(unsigned)id].peer == -1);
        w->conns[(unsigned)id].peer = peer;
    }
    for (unsigned i = 0; i < w->count; i++) put(&w->conns[i], 10000);
    for (unsigned i = 0; i < w->count; i++) UNTIL(w, w->conns[i].received == 10000);
    assert_sleeps(w);
    close(listener);
    close_world(w);
}

static void says_that_a_connection_is_refused(struct world *w) {
    struct sockaddr_storage a;
    socklen_t size;
    open_world(w, 4096, 8);
    int listener = listen_for(w, &a, &size, 1);
    close(listener);
    start_connecting(w, 3, &a, size);
    for (unsigned i = 0; i < w->count; i++) {
        UNTIL(w, w->conns[i].connects);
        assert_int_equal(w->conns[i].connect_result, -ECONNREFUSED);
    }
    assert_sleeps(w);
    for (unsigned i = 0; i < w->count; i++) assert_int_equal(w->conns[i].closes, 0);
    close_world(w);
}

/* The listener's queue is full, so that the kernel answers no more of them; those that wait are removed. */
static void removes_a_stream_that_connects(struct world *w) {
    struct sockaddr_storage a;
    socklen_t size;
    if (!w->way->tcp) return; /* a Unix socket never waits under epoll */
    open_world(w, 4096, 8);
    int listener = listen_for(w, &a, &size, 0);
    start_connecting(w, 8, &a, size);
    UNTIL(w, w->conns[0].connects);
    drain(w);
    unsigned waiting = 0;
    for (unsigned i = 0; i < w->count; i++) waiting += !w->conns[i].connects;
    assert_true(waiting);
    close_world(w);
    close(listener);
}

static void survives_too_many_files(struct world *w) {
    struct sockaddr_in a;
    struct rlimit before, none;
    int listener = listen_anywhere(&a);
    open_world(w, 4096, 8);
    int fds[3];
    for (unsigned i = 0; i < 3; i++) fds[i] = connect_to(&a);
    assert_int_equal(proactor_listen(w->p, listener, 1), 0); /* io_uring takes the limit that holds when it is told to accept */
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    unsigned turns = 0;
    uint64_t start_ns = now_monotonic_ns();
    for (; w->accept_errors < 3 && turns < 1000; turns++) turn(w, start_ns + PATIENCE_NS);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(w->accept_error, -EMFILE);
    assert_true(turns < 30);
    assert_true(now_monotonic_ns() - start_ns >= 2 * ACCEPT_PAUSE_NS);
    UNTIL(w, w->accepts == 3);
    close_accepted(w, 0);
    for (unsigned i = 0; i < 3; i++) close(fds[i]);
    proactor_close(w->p);
    close(listener);
}

/* ---- waiting, watching, waking ---- */

static void keeps_deadlines(struct world *w) {
    open_world(w, 4096, 8);
    const uint64_t waits_ns[] = {1, 1000, 300000, 1500000, 20000000};
    for (unsigned i = 0; i < 5; i++) {
        uint64_t deadline_ns = now_monotonic_ns() + waits_ns[i];
        unsigned turns = 0;
        do assert_int_equal(turn(w, deadline_ns), 0);
        while (turns++ < 8 && now_monotonic_ns() < deadline_ns);
        assert_true(turns < 8);
    }
    turn(w, now_monotonic_ns() - 1000); /* one that has passed: no waiting */
    turn(w, 0);
    proactor_close(w->p);
}

static void watches_a_descriptor(struct world *w) {
    open_world(w, 4096, 8);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(proactor_watch_fd(w->p, -1, 0), -EBADF);
    assert_int_equal(proactor_watch_fd(w->p, fd, 4711), 0);
    assert_sleeps(w);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(write(fd, &(uint64_t){1}, 8), 8);
        unsigned fds = w->fds;
        UNTIL(w, w->fds == fds + 2); /* again and again until it is read */
        assert_int_equal(w->fd_tag, 4711);
        assert_int_equal(read(fd, &(uint64_t){0}, 8), 8);
        drain(w);
    }
    assert_sleeps(w);
    proactor_close(w->p);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void wakes_itself(struct world *w) {
    open_world(w, 4096, 8);
    proactor_wake(w->p, w->p);
    UNTIL(w, w->wakes == 1);
    assert_sleeps(w);
    proactor_close(w->p);
}

static void *wake_from_outside(void *other) {
    for (unsigned i = 0; i < 1000; i++) proactor_wake(NULL, other);
    return NULL;
}

static void is_woken_by_a_thread_without_a_proactor(struct world *w) {
    open_world(w, 4096, 8);
    for (unsigned i = 0; i < 20; i++) {
        pthread_t thread;
        unsigned wakes = w->wakes;
        assert_int_equal(pthread_create(&thread, NULL, wake_from_outside, w->p), 0);
        UNTIL(w, w->wakes > wakes);
        pthread_join(thread, NULL);
        drain(w);
    }
    assert_sleeps(w);
    proactor_close(w->p);
}

/* On a machine that is busy with other things there are fewer bounces. */
#define BOUNCE_NS (20 * 1000000000ull)

/* Two threads that do nothing but wake each other: each waits for the other's count, and nothing else would wake it. */
struct bouncer {
    enum proactor_kind kind;
    unsigned bounces;
    pthread_barrier_t *barrier;
    struct proactor *p;
    struct bouncer *other;
    _Atomic unsigned count; /* how often the other was woken */
    _Atomic bool last;      /* the first one says so before its last wake */
    bool first, failed;
};

static void wake_other(struct bouncer *b) {
    atomic_fetch_add(&b->count, 1);
    proactor_wake(b->p, b->other->p);
}

static void wait_for_other(struct bouncer *b, unsigned count) {
    uint64_t give_up_ns = now_monotonic_ns() + PATIENCE_NS;
    while (atomic_load(&b->other->count) != count) {
        struct event ev;
        proactor_wait(b->p, give_up_ns);
        while (proactor_next(b->p, &ev)) {}
        if (now_monotonic_ns() < give_up_ns) continue;
        fprintf(stderr, "wake %u was lost\n", count);
        abort();
    }
}

static void *bounce(void *arg) {
    struct bouncer *b = arg;
    struct proactor_options options = {.kind = b->kind, .buffer_size = 64, .buffer_count = 1};
    b->failed = proactor_open(&b->p, &options, NULL) != 0;
    pthread_barrier_wait(b->barrier);
    bool over = b->failed || b->other->failed;
    uint64_t end_ns = now_monotonic_ns() + BOUNCE_NS;
    for (unsigned i = 1; !over; i++) {
        if (b->first) {
            over = i == b->bounces || now_monotonic_ns() >= end_ns;
            atomic_store(&b->last, over);
            wake_other(b);
            wait_for_other(b, i);
        } else {
            wait_for_other(b, i);
            over = atomic_load(&b->other->last);
            wake_other(b);
        }
    }
    if (!b->failed) proactor_wait(b->p, 0); /* submits the last wake */
    pthread_barrier_wait(b->barrier);
    if (!b->failed) proactor_close(b->p);
    return NULL;
}

static void bounce_between(enum proactor_kind one, enum proactor_kind two, unsigned bounces) {
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    struct bouncer b[2] = {
        {.kind = one, .bounces = bounces, .barrier = &barrier, .first = true}, {.kind = two, .bounces = bounces, .barrier = &barrier}};
    b[0].other = &b[1];
    b[1].other = &b[0];
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, bounce, &b[i]), 0);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    if (b[0].failed || b[1].failed) skip();
}

static void loses_no_wake_uring(void **state) {
    (void)state;
    bounce_between(PROACTOR_URING, PROACTOR_URING, 100000);
}

static void loses_no_wake_epoll(void **state) {
    (void)state;
    bounce_between(PROACTOR_EPOLL, PROACTOR_EPOLL, 30000);
}

static void loses_no_wake_between_both(void **state) {
    (void)state;
    bounce_between(PROACTOR_URING, PROACTOR_EPOLL, 30000);
}

/* ---- choosing a back end ---- */

static void falls_back_to_epoll(void **state) {
    (void)state;
    static const int errors[] = {-EPERM, -ENOSYS, -ENOMEM, -EINVAL};
    struct proactor_options options = {.buffer_size = 4096, .buffer_count = 8};
    struct proactor *p;
    const char *why = NULL;
    for (unsigned i = 0; i < 4; i++) {
        proactor_test_refuse_uring(errors[i]);
        options.kind = PROACTOR_AUTO;
        assert_int_equal(proactor_open(&p, &options, &why), 0);
        assert_int_equal(proactor_kind_of(p), PROACTOR_EPOLL);
        assert_non_null(why);
        proactor_close(p);
        options.kind = PROACTOR_URING;
        int error = proactor_open(&p, &options, &why);
        assert_true(error == errors[i] || error == -ENOSYS); /* ENOSYS: built without */
        assert_non_null(why);
    }
    proactor_test_refuse_uring(0);
    options.kind = PROACTOR_AUTO;
    assert_int_equal(proactor_open(&p, &options, &why), 0);
    assert_true((proactor_kind_of(p) == PROACTOR_EPOLL) == (why != NULL));
    proactor_close(p);
    options.buffer_count = 3;
    assert_int_equal(proactor_open(&p, &options, NULL), -EINVAL);
}

/* ---- running over every back end ---- */

struct case_of {
    const char *name;
    void (*test)(struct world *);
    bool over_sockets; /* over Unix and TCP */
};

static const struct way ways[] = {{PROACTOR_URING, false}, {PROACTOR_URING, true}, {PROACTOR_EPOLL, false}, {PROACTOR_EPOLL, true}};

static const struct case_of cases[] = {
    {"echoes", echoes, true},
    {"serves many streams with few buffers", serves_many_streams_with_few_buffers, true},
    {"takes more work than the queue", takes_more_work_than_the_queue, true},
    {"survives a full completion queue", survives_a_full_completion_queue, true},
    {"says end of file and still sends", says_end_of_file_and_still_sends, true},
    {"says reset", says_reset, true},
    {"pauses and resumes", pauses_and_resumes, true},
    {"receives into a place", receives_into_a_place, true},
    {"stops receiving into a place", stops_receiving_into_a_place, true},
    {"receives into a place without buffers", receives_into_a_place_without_buffers, true},
    {"shares buffers fairly", shares_buffers_fairly, true},
    {"few buffers go round", few_buffers_go_round, true},
    {"goes on when buffers come back", goes_on_when_buffers_come_back, true},
    {"sends to a slow reader", sends_to_a_slow_reader, true},
    {"sends 64 pieces", sends_64_pieces, true},
    {"cuts long sends into slices", cuts_long_sends_into_slices, false},
    {"removes a stream that sends", removes_a_stream_that_sends, true},
    {"does whatever is asked in any order", does_whatever_is_asked_in_any_order, true},
    {"connects and receives", connects_and_receives, true},
    {"says that a connection is refused", says_that_a_connection_is_refused, true},
    {"removes a stream that connects", removes_a_stream_that_connects, true},
    {"accepts", accepts, false},
    {"gives_up_one_listener", gives_up_one_listener, false},
    {"survives too many files", survives_too_many_files, false},
    {"keeps deadlines", keeps_deadlines, false},
    {"watches a descriptor", watches_a_descriptor, false},
    {"wakes itself", wakes_itself, false},
    {"is woken by a thread without a proactor", is_woken_by_a_thread_without_a_proactor, false},
};

enum { CASES = sizeof cases / sizeof *cases, WAYS = sizeof ways / sizeof *ways };

struct job {
    const struct case_of *of;
    const struct way *way;
    char name[100];
};

static void run_job(void **state) {
    const struct job *job = *state;
    struct world *w = calloc(1, sizeof *w);
    w->way = job->way;
    job->of->test(w);
    free(w);
}

int main(void) {
    static struct job jobs[CASES * WAYS];
    struct CMUnitTest tests[CASES * WAYS + 4];
    size_t n = 0;
    for (unsigned i = 0; i < CASES * WAYS; i++) {
        struct job *job = &jobs[i];
        *job = (struct job){.of = &cases[i / WAYS], .way = &ways[i % WAYS]};
        if (job->way->tcp && !job->of->over_sockets) continue;
        const char *back_end = job->way->kind == PROACTOR_URING ? "io_uring" : "epoll";
        snprintf(job->name, sizeof job->name, "%s (%s%s)", job->of->name, back_end, job->way->tcp ? ", TCP" : "");
        tests[n++] = (struct CMUnitTest){job->name, run_job, NULL, NULL, job};
    }
    const struct CMUnitTest others[] = {
        cmocka_unit_test(loses_no_wake_uring),
        cmocka_unit_test(loses_no_wake_epoll),
        cmocka_unit_test(loses_no_wake_between_both),
        cmocka_unit_test(falls_back_to_epoll),
    };
    memcpy(tests + n, others, sizeof others);
    return _cmocka_run_group_tests("proactor", tests, n + 4, NULL, NULL);
}
