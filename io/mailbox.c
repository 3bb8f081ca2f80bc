/* The consumer's half of the mailbox. */
#include "io/mailbox.h"

#if MAILBOX_NO_FENCES
_Atomic uint32_t mailbox_fence_word;
#endif

void mailbox_init(struct mailbox *m) {
    atomic_init(&m->head, NULL);
    atomic_init(&m->asleep, 0);
    m->first = m->last = NULL;
}

void mailbox_collect(struct mailbox *m) {
    /* The look before the exchange leaves the line shared with the producers where there is nothing to take. */
    if (!atomic_load_explicit(&m->head, memory_order_relaxed)) return;
    struct message *newest = atomic_exchange_explicit(&m->head, NULL, memory_order_acquire);
    struct message *oldest = NULL;
    for (struct message *msg = newest; msg;) {
        struct message *older = msg->next;
        msg->next = oldest;
        oldest = msg;
        msg = older;
    }
    if (m->last) m->last->next = oldest;
    else m->first = oldest;
    m->last = newest;
}

void mailbox_append(struct mailbox *m, struct message *msg) {
    msg->next = NULL;
    if (m->last) m->last->next = msg;
    else m->first = msg;
    m->last = msg;
}

struct message *mailbox_next(struct mailbox *m) {
    struct message *msg = m->first;
    if (!msg || !mailbox_is_armed(msg)) return NULL;
    m->first = msg->next;
    if (!m->first) m->last = NULL;
    return msg;
}

bool mailbox_ready(const struct mailbox *m) {
    if (m->first) return mailbox_is_armed(m->first);
    return mailbox_has_new(m);
}
