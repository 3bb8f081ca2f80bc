/* What COMMAND DOCS tells of a command beyond its row: arguments, history, what replaces it. Nothing but that reply reads it.
 *
 * Arguments are words parted by spaces, in the order of the reply:
 *
 *   word  = name [%type] [=token] [@since] [~deprecated] [?] [*] [+] [inner]
 *   type  = i integer, d double, p pattern, u unix-time, t pure-token, k key, and behind it the number of its key specification;
 *           none: string
 *   inner = {words}: one of them; (words): all of them, a block
 *   ?     = optional, * multiple, + each with the token
 *
 * A word in capitals is a token whose name is the same in lower case. A token of other characters than letters and '-' stands in quotes.
 *
 *   SET:  key%k0 value condition@2.6.12?{NX XX} GET@6.2.0? expiration?{seconds%i=EX@2.6.12 ... KEEPTTL@6.0.0}
 *
 * `tools/command-facts NAME` prints the entry of a command as redis-server knows it.
 */
#ifndef SERVER_COMMAND_FACTS_H
#define SERVER_COMMAND_FACTS_H

struct command_facts {
    const char *name; /* of a subcommand: container|name */
    const char *arguments;
    const char *history; /* lines of "version text" */
    const char *deprecated_since, *replaced_by;
    const char *doc_flag;
};

/* NULL: there is nothing to tell. */
const struct command_facts *command_facts_find(const char *name);

#endif
