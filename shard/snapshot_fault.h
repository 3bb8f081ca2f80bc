/* Deliberate faults of snapshots, one at a time, that the simulator must find (tests/sim). Never set elsewhere. */
#ifndef SHARD_SNAPSHOT_FAULT_H
#define SHARD_SNAPSHOT_FAULT_H

#ifndef SNAPSHOT_FAULT
#define SNAPSHOT_FAULT 0
#endif
enum {
    SNAPSHOT_FAULT_NO_IMAGE = 60,
    SNAPSHOT_FAULT_UNMARKED = 61,
    SNAPSHOT_FAULT_FLUSH_LOST = 62,
    SNAPSHOT_FAULT_NUMBER_NOW = 63,
    SNAPSHOT_FAULT_KEPT_LOST = 64,
    SNAPSHOT_FAULT_NOT_HELD = 65
};

#endif
