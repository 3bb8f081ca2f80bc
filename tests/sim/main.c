/* darter-sim: the scheduler of several shards, with all races drawn from a seed. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shard/snapshot_fault.h"
#include "tests/sim/check.h"
#include "tests/sim/trace.h"
#include "tests/sim/world.h"

static const char usage[] = "usage: darter-sim [--seeds FROM-TO] [--seed N [--trace]] [--fault N]\n"
                            "  --seeds FROM-TO   runs these (1-10000) until one fails: then it is named, and the status is 1\n"
                            "  --seed N          runs one\n"
                            "  --trace           makes it as short as it still fails, and shows it\n"
                            "  --fault N         with a deliberate fault, which must be found: then status 1 is right\n"
                            "  --faults          shows them\n";

static const struct {
    unsigned number;
    const char *what;
} faults[] = {
    {SCHEDULE_FAULT_NO_FLOOR, "a member that comes too late is taken in"},
    {SCHEDULE_FAULT_INTENT_LOST, "the last intent of a member is lost"},
    {SCHEDULE_FAULT_WAITING_RUNS, "a member runs although an intent of it waits"},
    {SCHEDULE_FAULT_WRITES_SHARE, "intents to write share their key, as if they read"},
    {TXN_FAULT_NO_WITHDRAWAL, "a withdrawal is not sent to those that stand"},
    {TXN_FAULT_LATE_STANDS, "a member that was too late counts as one that stands"},
    {FAULT_NO_VALIDATION, "EXEC does not look at what was watched"},
    {FAULT_ARMED_EARLY, "an outbox is armed before all mailboxes were filled"},
    {FAULT_RUN_ON_ARRIVAL, "a shard runs the first hop when its own member stands, not when all do"},
    {FAULT_EARLY_RELEASE, "the first hop on a shard releases, not the last"},
    {FAULT_NO_DRAIN, "an exclusive command does not wait for transactions under way"},
    {FAULT_FORGOTTEN_INTENT, "a deferred command has no intent of its own, so a later one overtakes it"},
    {FAULT_OWN_FIRST, "own commands run before what had arrived"},
    {FAULT_EXPIRY_TAKES, "expiry does not look at intents"},
    {FAULT_PLAIN_PASSES, "a plain command does not look at intents"},
    {FAULT_OWN_OVERTAKES, "own commands run although something is held back by what is not armed yet"},
    {FAULT_NUMBER_EARLY, "a number is drawn before its members have their places in their shards' order of arrival"},
    {WAIT_FAULT_WAKE_LOST, "a key that becomes ready while another is goes unnoticed"},
    {WAIT_FAULT_LAST_FIRST, "who comes to wait for a key is the first of its queue"},
    {WAIT_FAULT_HELD_FOR_EVER, "a key that was held for a transaction is not let go"},
    {WAIT_FAULT_NOT_HELD, "a key that a transaction under way has made ready is taken from it"},
    {WAIT_FAULT_CLAIM_IGNORED, "a shard serves a waiter that another one has served"},
    {WAIT_FAULT_SWAP_UNSEEN, "SWAPDB wakes nobody"},
    {WAIT_FAULT_PASSED_ENDS, "who has no use for a key ends the turn of those behind him"},
    {FAULT_SERVED_LATE, "who waits is served after a batch, not after each of its commands"},
    {FAULT_HALF_FORGOTTEN, "a waiter is left in the queues of another shard when its command is over"},
    {FAULT_QUEUES_UNGUARDED, "between looking and queuing up no intents stand"},
    {FAULT_ENDS_UNCLAIMED, "a deadline, CLIENT UNBLOCK or the end of a connection does not ask who was first"},
    {FAULT_NOT_SERVED_HELD, "nobody is served after an exclusive command"},
    {FAULT_WRITER_FORGOTTEN, "who waited until a snapshot had written a value is not run"},
    {FAULT_SERVED_UNLOCKED, "the key of who is served in slices is not locked"},
    {FAULT_SERVED_ON, "who is served in slices is not done when its shard stands still"},
    {SNAPSHOT_FAULT_NO_IMAGE, "what a snapshot has not written yet may change"},
    {SNAPSHOT_FAULT_UNMARKED, "what was written because it was about to change is not marked"},
    {SNAPSHOT_FAULT_FLUSH_LOST, "a table that is flushed is not handed to the snapshot"},
    {SNAPSHOT_FAULT_NUMBER_NOW, "a snapshot takes a database by its number of now, not of the cut"},
    {SNAPSHOT_FAULT_KEPT_LOST, "an entry that the snapshot keeps is never written"},
    {SNAPSHOT_FAULT_NOT_HELD, "a value that is being written may change"},
};

static void show_faults(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) printf("%u %s\n", faults[i].number, faults[i].what);
}

static volatile uint64_t running; /* seed */

/* An assertion in what is proved is a finding too. */
static void aborted(int signal) {
    char text[64];
    (void)signal;
    int n = snprintf(text, sizeof text, "seed %" PRIu64 ": aborted\n", running);
    if (write(STDOUT_FILENO, text, (size_t)n) < n) _exit(2);
    _exit(1);
}

static struct {
    struct stats stats;
    uint64_t seeds, ops;
} total;

static void add(uint64_t *to, const struct stats *s) {
    const uint64_t *from = (const uint64_t *)s;
    for (size_t i = 0; i < sizeof *s / sizeof *from; i++) to[i] += from[i];
}

static const char *judge(struct plan *p) {
    static struct history h;
    struct stats stats;
    const char *wrong = world_run(p, &stats);
    add((uint64_t *)&total.stats, &stats);
    total.ops += p->n_ops;
    if (wrong) return wrong;
    history_read(&h, p);
    if ((wrong = check_sums(&h)) || (wrong = check_taken(&h)) || (wrong = check_append(&h))) return wrong;
    return check_linear(&h);
}

static const char *run_seed(struct plan *p, uint64_t seed) {
    running = seed;
    plan_make(p, seed);
    const char *wrong = judge(p);
    total.seeds++;
    return wrong;
}

static int run_seeds(struct plan *p, uint64_t from, uint64_t to) {
    const char *wrong = NULL;
    uint64_t seed = from;
    for (; seed <= to; seed++) {
        if ((wrong = run_seed(p, seed))) break;
        world_forget();
    }
    const struct stats *s = &total.stats;
    printf("%" PRIu64 " seeds, %" PRIu64 " commands, %" PRIu64 " steps: %" PRIu64 " withdrawn, %" PRIu64 " exclusive, %" PRIu64
           " members waited, %" PRIu64 " plain commands deferred, %" PRIu64 " shards lent, %" PRIu64 " keys expired, %" PRIu64
           " parked, %" PRIu64 " served, of whom %" PRIu64 " in slices, %" PRIu64 " snapshots\n",
        total.seeds, total.ops, s->steps, s->withdrawn, s->exclusive, s->waited, s->deferred, s->lent, s->expired, s->parked, s->served,
        s->sliced, s->snapshots);
    if (!wrong) return 0;
    printf("seed %" PRIu64 ": %s\n", seed, wrong);
    return 1;
}

static int trace(struct plan *p, uint64_t seed) {
    const char *wrong = run_seed(p, seed);
    if (wrong) {
        plan_make(p, seed);
        plan_shrink(p, judge);
        wrong = judge(p);
    }
    printf("seed %" PRIu64 ": %s\n", seed, wrong ? wrong : "nothing is wrong");
    history_print(p, stdout);
    return wrong != NULL;
}

int main(int argc, char **argv) {
    static struct plan p;
    static const struct option options[] = {{"seeds", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'n'},
        {"trace", no_argument, NULL, 't'}, {"fault", required_argument, NULL, 'f'}, {"faults", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    uint64_t from = 1, to = 10000;
    bool show = false;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end;
        switch (o) {
        case 's':
            from = strtoull(optarg, &end, 10);
            to = *end == '-' ? strtoull(end + 1, NULL, 10) : from;
            break;
        case 'n': from = to = strtoull(optarg, NULL, 10); break;
        case 't': show = true; break;
        case 'l': show_faults(); return 0;
        case 'f': sim_fault = (unsigned)strtoul(optarg, NULL, 10); break;
        default: fputs(usage, o == 'h' ? stdout : stderr); return o == 'h' ? 0 : 2;
        }
    }
    signal(SIGABRT, aborted);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return show ? trace(&p, from) : run_seeds(&p, from, to);
}
