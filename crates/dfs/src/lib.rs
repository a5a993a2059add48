//! POSIX names in a container, on the DFS layout.
//!
//! [`Dfs`] formats and mounts a container; [`Dir`] has every operation on names, relative to itself; [`File`]
//! is an open file, [`Obj`] whatever an entry names; [`tree`] copies and compares whole directory trees. [`layout`] says what lies where.
//!
//! # What it costs
//! In requests to targets, in a mount that is not shared, with the path's directory in the cache:
//!
//! | operation | requests |
//! |---|---|
//! | create, mkdir, symlink | 1 conditional update |
//! | a small file with contents and attributes (`put_whole`) | 1 batch: one record, or a commit over two targets |
//! | open | 1 fetch |
//! | read, write | 1 for each chunk touched; a read that meets a hole or the end asks for the size, and again for what may be behind the old end |
//! | stat | 1 fetch, for a file 1 size query a shard; with exact blocks, if it has changed, 1 more a chunk (of 4096 at most), and to list several chunks 1 a shard and 1024 |
//! | unlink | 1 fetch, 1 batch of two punches: one record, or a commit over two targets |
//! | list | 1 for each page of names; with attributes also those of a stat of each, a page of them together |
//! | rename, link, unlink of an open or linked file | 1 transaction |
//! | create, mkdir, symlink in a shared mount | 1 conditional update, 1 fetch; in the root no fetch |
//! | unlink in a shared mount | 1 transaction: its begin, 1 fetch, its commit; rmdir also 1 list |
//! | write in a shared mount | 1 transaction for each chunk touched; if it is relaxed, 1 update |
//!
//! The size of a file is that of its last record, as the layout wants it: nothing is written twice, and writers of different parts never meet. New files are on all targets unless directory, container or the open
//! ask for less, so that one file has the speed of all and no target is full before the others; what is put whole
//! is one shard, and so is all that a container for many small files holds (`file_class` S1): then the query asks one
//! target. A size in the inode record would make stat one request but every growing write two, and readers of other programs would not keep it.
//!
//! # What it promises
//! Each row is proved by the test named, in `tests/it/cases`.
//!
//! | | test |
//! |---|---|
//! | Paths are followed through `.`, `..` and up to 40 symbolic links; names have up to 255 bytes, paths 4095 | `names::paths_resolve_through_directories_dots_and_symbolic_links`, `names::symbolic_links_in_a_circle_end_in_an_error`, `names::names_have_up_to_255_bytes_of_anything_but_slash_and_zero` |
//! | Of many that create one name exclusively one wins | `threads::of_many_that_create_one_name_exclusively_one_wins` |
//! | Create follows a dangling link, not with `exclusive` | `names::creating_knows_exclusive_truncate_and_no_follow` |
//! | A directory is removed only when empty, also while others fill it; nothing is added to a removed one | `names::nothing_is_found_in_or_added_to_a_removed_directory`, `threads::a_directory_removed_while_others_fill_it_holds_nothing_or_stays` |
//! | Handles survive renames, also by other threads; cached paths follow them | `names::paths_are_relative_to_a_directory_handle_also_after_it_moved`, `names::cached_paths_follow_renamed_directories_and_links`, `threads::handles_follow_what_other_threads_rename_all_the_time` |
//! | Rename is atomic: a name that is replaced always exists, what is replaced is freed | `threads::a_name_replaced_all_the_time_always_exists` |
//! | Rename can refuse to replace, and exchange | `renames::rename_without_replacing_refuses_an_existing_name`, `renames::exchange_swaps_two_entries_of_any_kind` |
//! | No directory ends up below itself, also with several movers | `renames::a_directory_cannot_be_moved_below_itself`, `threads::directories_moved_into_each_other_by_many_threads_never_get_lost` |
//! | All names of a file share contents, attributes and extended attributes | `links::all_names_share_contents_and_attributes` |
//! | Files without hard links are stored as if there were no such thing | `links::ordinary_files_are_untouched_by_the_extension` |
//! | An unlinked or replaced file works while it is open and is freed at its last close, or by the next mount | `orphans::an_open_file_works_after_its_name_is_gone_and_is_freed_on_close`, `orphans::a_mount_frees_what_a_dead_one_left_open`; by another mount, where locks are kept: `opens::a_file_that_is_open_works_on_when_another_mount_removes_or_replaces_it` |
//! | A small file is made with contents and attributes at once | `files::a_small_file_is_made_whole_or_not_at_all` |
//! | A file goes round all targets unless somebody chose otherwise; what is put whole is on one | `files::a_file_that_nobody_chose_a_class_for_is_on_all_targets_unless_it_is_put_whole` |
//! | Appends of many threads and mounts are whole and all there | `threads::appends_of_many_threads_are_all_there_and_whole`, `threads::appends_of_many_mounts_are_all_there_and_whole` |
//! | A read beside writes that make the file longer returns no zeros that nobody wrote | `threads::a_reader_beside_a_writer_that_makes_the_file_longer_sees_no_zeros` |
//! | Holes read as zeros, take no space and are found | `files::holes_read_as_zeros_and_take_no_space`, `files::seek_finds_data_and_holes` |
//! | Cutting, lengthening and punching keep the rest | `files::set_len_cuts_and_lengthens`, `files::punching_keeps_the_size` |
//! | A listing returns what stays exactly once, whatever comes and goes | `listing::entries_that_stay_are_listed_once_while_others_come_and_go` |
//! | A listing goes on behind any entry, also inside of a page | `listing::a_listing_resumes_behind_any_entry_while_others_come_and_go` |
//! | A file that another mount removed is stale here, and no write brings it back | `shared::a_file_that_another_mount_removed_is_stale_and_is_not_brought_back` |
//! | Nothing is added to a directory that another mount removes at the same time | `shared::a_directory_that_is_filled_while_another_mount_removes_it_stays`, `shared::nothing_is_added_to_a_directory_that_another_mount_removed` |
//! | A relaxed mount makes, writes, finds and removes files in few requests, and learns within a second of writing that a file is gone | `shared::operations_on_a_relaxed_mount_take_few_requests`, `shared::a_relaxed_mount_learns_within_a_second_that_a_file_is_gone` |
//! | A balanced container is never mounted relaxed | `shared::a_relaxed_mount_of_a_balanced_container_is_balanced` |
//! | A handle goes on where another mount has moved its file or directory, once it is told | `shared::a_handle_is_told_where_another_mount_has_moved_what_it_stands_for` |
//! | Class and chunk that a directory gives to new files are handed down | `shared::what_a_directory_says_of_new_files_is_handed_down` |
//! | The parts of a directory have each entry once | `listing::the_parts_of_a_directory_have_each_entry_once` |
//! | Extended attributes are set under conditions, up to 64 KiB, and 256 KiB of one entry | `attrs::extended_attributes_are_set_under_conditions_listed_and_removed`, `attrs::extended_attributes_have_the_limits_of_the_layout`, `attrs::an_entry_is_renamed_and_linked_with_all_the_extended_attributes_that_it_can_have` |
//! | A time that was set stays until the next change, also beside a sync, by another name, of another mount | `times::a_time_that_was_set_beside_a_sync_stays` and the rest of `times` |
//! | With credentials, permissions are checked as by Linux | `access::every_directory_on_the_way_must_be_passable` and the rest of `access` |
//! | What nothing names is found and freed by a check, unless anything is damaged | `checks::what_nothing_names_is_found_and_freed`, `checks::what_is_below_a_damaged_entry_is_not_freed` |
//! | What nothing names can be given names instead | `checks::what_nothing_names_is_given_names` |
//! | A damaged entry hides no other, and can be removed and replaced | `damage::a_damaged_entry_hides_no_other`, `damage::a_damaged_entry_is_removed_or_replaced_and_what_it_named_is_left_to_a_check` |
//! | A stored name that no entry can have leads nowhere | `damage::an_entry_whose_name_leads_elsewhere_is_neither_got_nor_followed` |
//! | A power cut leaves every operation on names done or not | `crash::a_power_cut_leaves_every_operation_done_or_not` |
//! | A snapshot is mounted read-only and never changes | `snapshots::a_snapshot_shows_the_tree_as_it_was` |
//! | All of this together agrees with a tree in memory, operation by operation | `random::the_file_system_agrees_with_a_tree_in_memory` |
//!
//! # Times
//! A change of a file's or directory's content sets its time in the mount at once, in the store when the last
//! handle closes, at [`Dfs::sync`], or when the stored one is a second old. Changes within 4 ms of the stored
//! time do not move it, which is the grain of Linux's file times. A crash loses at most that second of times,
//! never data. A time that is set replaces one that waits; one that another mount has set does so, too, unless it
//! is the stored one. Access times are kept by mounts that ask for it, when the door says that something was read.
//!
//! # Several mounts
//! A mount that is not `shared` takes the container for its own: it caches paths of directories and orders
//! operations on one entry by locks in the process, so most need no transaction. With `shared`, a change
//! of entries is a transaction that also reads what it relies on (its parents are
//! where they were), and nothing is cached. A new entry is written at once; then its directory is looked at, at the
//! entry's epoch: it was there, and no removal that has not seen the entry can still be committed, or the entry is
//! taken back. Only a crash between the two, while the directory is removed, leaves an entry that nothing leads to. A file that another mount unlinks while it is open here is left to this one where an engine keeps locks: who has a file open has one of it, in an open 2 requests more and at the last close 1, and who unlinks it looks for one, in 2. Elsewhere it is freed there: reads that then find nothing, and all changes, fail with `Stale`, and so they do anywhere when another mount has moved it; who opens the path again goes on. A mount that is also `relaxed` looks for that when it records the
//! time of a write, which is once a second, not at each one: what it writes to a file that is gone lies there until a check frees it.
//!
//! # Hard links
//! The DFS layout keeps a file's attributes in its only entry. When a file gets a second name, they move to
//! its *companion*, an object of class S1 with the file's number and bit 31 of the user bits set. Under its one
//! dkey `DLM_COMPANION` lie `DFS_INODE` (the shared 88-byte record), `DLM_LINKS` (the number of names, 8 bytes,
//! little-endian) and what else lay beside the record. The entries keep their own `DFS_INODE` with kind, mode, object and chunk,
//! by which other programs of this layout read and write the file; a mark in the size field, which the
//! layout uses for symbolic links only, says that the attributes are elsewhere. A file that is back to one name keeps
//! its companion. Pipes, sockets and devices are linked in the same way; symbolic links cannot be.
//!
//! # Orphans
//! Object (lo 0, user bits 2) lists files that were unlinked while open: one dkey each, the 16 bytes of the
//! object's id, with the record in `DFS_INODE` and what else lay beside it; so it does links and special files in use, and files that were made without a name. Akey `DLM_HOLDER` says in whose mount it is open, where the engine keeps a lock of that mount; who can get that lock knows him dead, and frees it. An entry without it is freed by a mount that is not shared. The entry goes and the orphan comes in one transaction. The entry and the object of a file that is *not* open go together, so a crash leaves no object without a name.
//!
//! # Not kept
//! Link counts of directories (1); `st_blocks` counts holes as data, unless a mount asks for what is stored. The update of a file's contents over several chunks is not atomic, each chunk is.

mod access;
mod acl;
mod adopt;
mod alone;
mod attr;
mod cache;
mod check;
mod chunks;
mod dir;
mod error;
mod event;
mod file;
pub mod layout;
mod leased;
mod list;
mod located;
mod locks;
mod mount;
mod node;
mod obj;
mod opens;
mod orphans;
mod path;
mod rename;
mod resolve;
mod space;
mod store;
mod tmpfile;
pub mod tree;
mod uns;

pub use access::{Cred, Rights};
pub use attr::{SetAttrs, SetTime, Stat, XattrCond, number_of};
pub use check::{BadEntry, BadLinks, CheckReport};
pub use dir::{Dir, OpenOptions, WHOLE_BYTES_MAX, check_name};
pub use dolmen_client::{Lease, Leased};
pub use error::{Error, Result, What, errno};
pub use file::{File, FilePlace, Piece};
pub use layout::device_no::DeviceNo;
pub use layout::inode::{FileKind, Time};
pub use layout::superblock::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
pub use leased::leased;
pub use list::{Cookie, Entry, Found, Names};
pub use located::{ForNewEntries, KnownFile, Located, Opened};
pub use locks::{LockOwner, Locked, Locks, lock};
pub use mount::{Dfs, FormatOptions, LAYOUT_POSIX, MountOptions, STATFS_TYPE, Statfs};
pub use obj::{New, Obj};
pub use rename::RenameMode;
pub use resolve::Follow;
pub use space::Allocate;
pub use uns::{UNS_LAYOUT_COUNT, UNS_XATTR, UNS_XATTR_BYTES_MAX, UnsLink, class_of_hint, classes_of_hints};
