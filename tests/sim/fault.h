/* Deliberate faults, one at a time, by number (darter-sim --faults shows them): each must be found by the checks, which tools/test sim proves. Those of
 * shard/schedule.c and server/txn.c are hooks that vanish in every other build; the others are in the simulator's driver (world.h). */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

extern unsigned sim_fault; /* 0: none */

#endif
