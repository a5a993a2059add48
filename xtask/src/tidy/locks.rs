//! A lock names what it guards and its order: `// Guards: <what>; taken after <which>`.

use super::Finding;
use crate::source::{SourceFile, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, file) in tree.sources().filter(|(_, f)| !f.is_test) {
        for line in lock_lines(file) {
            if !file.comments_above(line).any(|c| c.body().starts_with("Guards")) {
                let remedy = "own the value or pass a message; if it must be a lock, say `// Guards: <what>; <order>` above it";
                found.push(Finding::new(&file.path, line, "lock that does not say what it guards", remedy));
            }
        }
    }
    found
}

/// Lines of struct fields, statics and `Arc`s whose type is a lock.
fn lock_lines(file: &SourceFile) -> Vec<usize> {
    let mut lines: Vec<usize> = shared_locks(file).map(|at| file.tokens[at].line).collect();
    for (at, token) in file.production() {
        let range = match token.text.as_str() {
            "struct" => struct_body(file, at),
            "static" => at..end_of(file, at, &["=", ";"]),
            _ => continue,
        };
        lines.extend(range.filter(|i| is_lock(file, *i)).map(|i| file.tokens[i].line));
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Indices of `Arc<Mutex<` and its kin in production code.
pub(super) fn shared_locks(file: &SourceFile) -> impl Iterator<Item = usize> {
    file.production()
        .filter(|(at, token)| token.is("Arc") && file.matches(at + 1, &["<"]))
        .map(|(at, _)| at)
        .filter(|at| {
            let path = file.tokens.iter().skip(at + 2).take_while(|t| !t.is("<") && !t.is(">") && !t.is(","));
            path.last()
                .is_some_and(|t| matches!(t.text.as_str(), "Mutex" | "RwLock" | "AsyncMutex" | "AsyncRwLock"))
        })
}

fn is_lock(file: &SourceFile, at: usize) -> bool {
    matches!(file.tokens[at].text.as_str(), "Mutex" | "RwLock") && file.matches(at + 1, &["<"])
}

/// Fields of the struct, named or not.
fn struct_body(file: &SourceFile, at: usize) -> std::ops::Range<usize> {
    let open = end_of(file, at, &["{", "(", ";"]);
    open..file.closing(open)
}

fn end_of(file: &SourceFile, at: usize, ends: &[&str]) -> usize {
    (at..file.tokens.len())
        .find(|i| ends.iter().any(|e| file.tokens[*i].is(e)))
        .unwrap_or(file.tokens.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    #[test]
    fn locks_in_fields_and_statics_need_their_line() {
        let text = "struct A {\n a: Mutex<u8>,\n // Guards: the free list; taken last.\n b: Mutex<u8>,\n}\nstatic C: RwLock<u8> = x();\nuse std::sync::Mutex;\nfn f(m: &Mutex<u8>) {}\n";
        assert_eq!(lines(check, text), [2, 6]);
    }

    #[test]
    fn shared_locks_count_everywhere() {
        assert_eq!(lines(check, "type S = Arc<std::sync::Mutex<u8>>;\ntype T = Arc<Vec<u8>>;\n"), [1]);
    }

    #[test]
    fn a_lock_type_of_our_own_is_not_a_lock_held() {
        assert_eq!(lines(check, "pub struct Mutex<T> {\n inner: T,\n}\n"), [0_usize; 0]);
    }
}
