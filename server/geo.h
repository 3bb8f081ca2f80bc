/* Places in sorted sets, as commands read and reply them, and the searches for them. */
#ifndef SERVER_GEO_H
#define SERVER_GEO_H

#include "server/command.h"
#include "server/geohash.h"
#include "server/zsets.h"

struct task;
struct thread;

/* Longitude and latitude, two arguments. False: an error was replied. */
bool geo_arg_point(const struct arg *a, struct geo_point *out, struct reply *r);
/* Metres of a unit. False: an error was replied. */
bool geo_arg_unit(const struct arg *a, double *out, struct reply *r);
/* With four digits behind the point. */
void geo_reply_distance(struct reply *r, double distance);
void geo_reply_point(struct reply *r, struct geo_point p);
/* Where a member is. False: it is not there. */
bool geo_find_place(const struct zset *x, const struct arg *member, struct geo_point *out);

/* A search, as a row of the table runs it (command.h): on one shard, with all shards at hand, over two shards; its keys. */
enum hop_result geo_search(struct shard *s, struct hop *h, struct reply *r);
void geo_search_drop(struct shard *s, struct hop *h, struct reply *r);
void geo_search_on_spread(const struct spread *x, struct hop *h, struct reply *r);
bool geo_search_steps(struct thread *t, struct task *k, struct reply *r);
void geo_find_keys(const struct arg *argv, uint32_t argc, struct key_range *out);

#endif
