/* Numbers of the RDB format. */
#ifndef SHARD_RDB_H
#define SHARD_RDB_H

/* The version that Redis 7.0 writes; that of Redis 8.0, the last one that is read. */
#define RDB_VERSION 10u
#define RDB_VERSION_TIMES 12u

enum rdb_opcode {
    RDB_SLOT_INFO = 244,
    RDB_FUNCTION = 245,
    RDB_FUNCTION_OLD = 246,
    RDB_MODULE_AUX = 247,
    RDB_IDLE = 248,
    RDB_FREQUENCY = 249,
    RDB_AUX = 250,
    RDB_RESIZE = 251,
    RDB_EXPIRES_MS = 252,
    RDB_EXPIRES_S = 253,
    RDB_SELECT = 254,
    RDB_END = 255,
};

enum rdb_type {
    RDB_STRING = 0,
    RDB_LIST = 1,
    RDB_SET = 2,
    RDB_ZSET_TEXT = 3, /* scores as text */
    RDB_HASH = 4,
    RDB_ZSET = 5, /* scores as 8 bytes */
    RDB_MODULE_OLD = 6,
    RDB_MODULE = 7,
    RDB_HASH_ZIPMAP = 9,
    RDB_LIST_ZIPLIST = 10,
    RDB_SET_INTSET = 11,
    RDB_ZSET_ZIPLIST = 12,
    RDB_HASH_ZIPLIST = 13,
    RDB_QUICKLIST = 14, /* of ziplists */
    RDB_STREAM = 15,
    RDB_HASH_LISTPACK = 16,
    RDB_ZSET_LISTPACK = 17,
    RDB_QUICKLIST_2 = 18, /* of listpacks and plain nodes */
    RDB_STREAM_2 = 19,
    RDB_SET_LISTPACK = 20,
    RDB_STREAM_3 = 21,
    RDB_HASH_TIMES_OLD = 22, /* absolute times */
    RDB_HASH_TIMES_LISTPACK_OLD = 23,
    RDB_HASH_TIMES = 24, /* the earliest time, and each field's as a distance from it */
    RDB_HASH_TIMES_LISTPACK = 25,
};

/* How a length begins: the two high bits of its first byte; and those of what is no length but a string in another form. */
enum { RDB_LENGTH_6 = 0, RDB_LENGTH_14 = 1, RDB_LENGTH_32 = 0x80, RDB_LENGTH_64 = 0x81, RDB_ENCODED = 0xc0 };
enum { RDB_INT_8 = 0, RDB_INT_16 = 1, RDB_INT_32 = 2, RDB_LZF = 3 };

/* An auxiliary field before a chunk: how many bytes come behind it, in 8 digits (0: it doesn't say). A chunk can be read for itself: whole keys, no chunk within it;
 * behind the mark, and behind the chunk, the database is told anew. Other servers pass over the field. */
#define RDB_CHUNK_MARK "darter-chunk"
#define RDB_CHUNK_DIGITS 8u

#endif
