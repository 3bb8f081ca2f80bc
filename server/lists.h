/* What the files of the list commands share: lists.c (at the ends, at an index, whole lists), list_search.c (those that compare elements), list_move.c (several
 * keys), list_blocking.c (those that wait). */
#ifndef SERVER_LISTS_H
#define SERVER_LISTS_H

#include "server/command.h"
#include "shard/list.h"

struct moving;

/* Is the key, if it is there, a list? The error is replied. */
bool is_list(const struct key *k, struct reply *r);
/* The list of a key that is one. */
struct list open_list(struct shard *s, const struct key *k);
/* The hop's first key, as a list; in the first slice of a hop it is looked up as its command does, later once more. False: it is of another type, and that is
 * replied. A key that is not there is an empty list. */
bool open_list_read(struct shard *s, const struct hop *h, struct key *k, struct list *x, struct reply *r);
bool open_list_write(struct shard *s, const struct hop *h, struct key *k, struct list *x, struct reply *r);
/* Whether elements may be added. The error is replied. */
bool may_push(struct shard *s, const struct key *k, const struct list *x, const struct list_load *load, struct reply *r);
static inline enum key_event pop_event(enum list_end end) { return end == LIST_HEAD ? KEY_LPOP : KEY_RPOP; }
static inline enum key_event push_event(enum list_end end) { return end == LIST_HEAD ? KEY_LPUSH : KEY_RPUSH; }

void reply_element(struct reply *r, const struct list_item *i);
/* Takes one out of a list that is there, and replies it. */
void pop_one(struct shard *s, struct key *k, struct list *x, enum list_end end, struct reply *r);
/* Takes n elements (or all) out at an end and replies them, with their number. */
void pop_and_reply(struct shard *s, struct key *k, struct list *x, enum list_end end, uint64_t n, struct reply *r);
/* LEFT or RIGHT. False: neither. */
bool arg_end(const struct arg *a, enum list_end *end);

/* Elements that are looked at in one slice: about 100 us. */
#define LIST_SLICE 16384u

/* list_search.c */
hop_fn lpos, lrem, linsert;
hop_drop_fn list_search_drop, lpos_drop;
/* list_move.c. What LMPOP asks for, from its number of keys on, which is argv[at]. False: an error was replied. */
struct multi_pop {
    uint32_t first, n; /* keys */
    enum list_end end;
    uint64_t count;
};
bool read_pop(const struct arg *argv, uint32_t argc, uint32_t at, struct multi_pop *x, struct reply *r);
/* LMOVE, RPOPLPUSH and their kin that wait: from which end to which. False: an error was replied. */
bool read_ends(const struct hop *h, enum list_end *from, enum list_end *to, struct reply *r);
extern const struct moving list_moving;
/* The key's name, and what is popped. */
void pop_of_many(struct shard *s, struct key *k, const struct multi_pop *x, struct reply *r);
/* The same of a hop that goes on in slices if it is much. */
enum hop_result pop_of_many_on(struct shard *s, struct hop *h, struct key *k, const struct multi_pop *asked, struct reply *r);
hop_fn lmpop_on_one;
spread_fn lmove, rpoplpush, lmpop;
steps_fn lmove_steps, lmpop_steps;

/* list_blocking.c */
extern const struct blocking blpop, brpop, blmpop, blmove;
/* The hop's nth key, looked up without counting or touching it. */
bool find_list(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);

#endif
