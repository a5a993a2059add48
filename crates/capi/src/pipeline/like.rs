//! Patterns as databases have them.

/// Whether bytes are like a pattern: `%` stands for anything, `_` for one byte, and `\` takes the meaning of what is behind
/// it.
pub(crate) fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when what was taken for `%` was too short: every name is gone through once for each `%` at most.
    let mut again = None;
    while n < name.len() {
        let (escaped, byte) = match pattern.get(p..) {
            Some([b'\\', byte, ..]) => (true, Some(*byte)),
            Some([byte, ..]) => (false, Some(*byte)),
            _ => (false, None),
        };
        if byte == Some(b'%') && !escaped {
            p += 1;
            again = Some((p, n));
        } else if byte.is_some_and(|byte| byte == name[n] || (byte == b'_' && !escaped)) {
            p += if escaped { 2 } else { 1 };
            n += 1;
        } else if let Some((from, taken)) = again {
            again = Some((from, taken + 1));
            (p, n) = (from, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_sql() {
        let cases: [(&str, &str, bool); 12] = [
            ("", "", true),
            ("%", "", true),
            ("%", "any", true),
            ("a%", "any", true),
            ("%y", "any", true),
            ("%n%", "any", true),
            ("a_y", "any", true),
            ("a_", "any", false),
            ("%abab%c", "ababababc", true),
            ("100\\%", "100%", true),
            ("100\\%", "1000", false),
            ("%x", "any", false),
        ];
        for (pattern, name, is) in cases {
            assert_eq!(is_like(pattern.as_bytes(), name.as_bytes()), is, "{pattern} {name}");
        }
    }
}
