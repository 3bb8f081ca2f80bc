/* Keys on their way from the loader that read them to the one whose shard they belong to: copied as bytes of the file, in bundles.
 *
 * Who puts never waits; who is about to read more waits while too much is under way and nothing of it is for himself. So what there can be is the limit, and what each
 * loader puts between two takes (a chunk of the file), and the bundles that each is filling for the others, all together as much as the limit; and there is always somebody who goes on, as whatever is under way is for somebody.
 * A loader that fails says so, and then nobody waits any more. Any thread, but each loader's number is one thread's.
 */
#ifndef SERVER_PASSING_H
#define SERVER_PASSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct passing;
/* Keys for one loader. With all that lies in it it is who took it, until he drops it. */
struct bundle;

/* A key in a bundle. */
struct passed_key {
    uint64_t hash, offset; /* offset: of the end of the value, in the file */
    int64_t expire_at_ms;
    size_t value_size;
    uint32_t name_size, db;
    uint8_t type; /* enum rdb_type */
    const char *name;
    const uint8_t *value;
};

/* Between so many loaders, numbered from 0. NULL: no memory. */
struct passing *passing_new(uint32_t loaders);
/* With all that is still under way, once all loaders have ended. Or NULL. */
void passing_free(struct passing *p);

/* Loader `from` has read a key of loader `to`; name and value are copied. False: no memory. */
bool passing_put(struct passing *p, uint32_t from, uint32_t to, const struct passed_key *k);
/* Before a loader reads more, waiting while too much is under way: the bundles that came for it, in the order of their coming. NULL: none. */
struct bundle *passing_take(struct passing *p, uint32_t to);
/* A loader has read its last: what it was filling goes out. */
void passing_end(struct passing *p, uint32_t from);
/* After that, waiting: the same. NULL: all loaders have read their last and nothing more comes, or one has failed. */
struct bundle *passing_await(struct passing *p, uint32_t to);
/* A loader has failed: the others are to stop too. */
void passing_fail(struct passing *p);
bool passing_failed(struct passing *p);

/* The key at *at (0: the first), and on to the next. False: there are no more. */
bool bundle_next(const struct bundle *x, size_t *at, struct passed_key *out);
/* Frees one, and returns the next of the list. */
struct bundle *bundle_drop(struct passing *p, struct bundle *x);

#endif
