/* INFO: what is true of the server, gathered from every shard and its thread. */
#ifndef SERVER_INFO_H
#define SERVER_INFO_H

#include "server/command.h"

/* A piece: one shard's and its thread's figures, raw. */
enum hop_result info_piece(struct shard *s, struct hop *h, struct reply *r);
/* The same while the shard is being loaded (on_beside): of it only what its loader publishes. */
enum hop_result info_beside(struct shard *s, struct hop *h, struct reply *r);
/* The text, from the pieces. */
void info_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r);
/* CONFIG RESETSTAT on one shard and its thread. */
enum hop_result info_reset(struct shard *s, struct hop *h, struct reply *r);
enum hop_result info_reset_beside(struct shard *s, struct hop *h, struct reply *r);

#endif
