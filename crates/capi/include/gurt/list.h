/* Doubly linked lists whose links are members of what is listed. */
#ifndef GURT_LIST_H
#define GURT_LIST_H

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct d_list_head {
	struct d_list_head *next;
	struct d_list_head *prev;
} d_list_t;

#define D_LIST_HEAD_INIT(name) {&(name), &(name)}
#define D_LIST_HEAD(name)      d_list_t name = D_LIST_HEAD_INIT(name)
#define D_INIT_LIST_HEAD(ptr)                                                                      \
	do {                                                                                       \
		(ptr)->next = (ptr);                                                               \
		(ptr)->prev = (ptr);                                                               \
	} while (0)

static inline void
d_list_insert_between(d_list_t *item, d_list_t *prev, d_list_t *next)
{
	item->next = next;
	item->prev = prev;
	next->prev = item;
	prev->next = item;
}

static inline void
d_list_add(d_list_t *item, d_list_t *head)
{
	d_list_insert_between(item, head, head->next);
}

static inline void
d_list_add_tail(d_list_t *item, d_list_t *head)
{
	d_list_insert_between(item, head->prev, head);
}

static inline void
d_list_del(d_list_t *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
}

static inline void
d_list_del_init(d_list_t *item)
{
	d_list_del(item);
	D_INIT_LIST_HEAD(item);
}

static inline void
d_list_move(d_list_t *item, d_list_t *head)
{
	d_list_del(item);
	d_list_add(item, head);
}

static inline void
d_list_move_tail(d_list_t *item, d_list_t *head)
{
	d_list_del(item);
	d_list_add_tail(item, head);
}

static inline int
d_list_empty(const d_list_t *head)
{
	return head->next == head;
}

#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#endif
#define d_container_of(ptr, type, member) container_of(ptr, type, member)

#define d_list_entry(ptr, type, member)       container_of(ptr, type, member)
#define d_list_first_entry(head, type, member) d_list_entry((head)->next, type, member)
#define d_list_next_entry(item, member)                                                            \
	d_list_entry((item)->member.next, __typeof__(*(item)), member)

#define d_list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)
#define d_list_for_each_safe(pos, n, head)                                                         \
	for (pos = (head)->next, n = pos->next; pos != (head); pos = n, n = pos->next)
#define d_list_for_each_entry(pos, head, member)                                                   \
	for (pos = d_list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head);   \
	     pos = d_list_next_entry(pos, member))
#define d_list_for_each_entry_safe(pos, tmp, head, member)                                         \
	for (pos = d_list_entry((head)->next, __typeof__(*pos), member),                           \
	    tmp  = d_list_next_entry(pos, member);                                                 \
	     &pos->member != (head); pos = tmp, tmp = d_list_next_entry(tmp, member))

#if defined(__cplusplus)
}
#endif

#endif /* GURT_LIST_H */
