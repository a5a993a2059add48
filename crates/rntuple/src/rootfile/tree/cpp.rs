//! Names of types in C++, as descriptions of classes and branches have them.

/// A name taken apart: `vector<pair<int,float> >` is `vector` of `pair` of `int` and `float`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// The name without arguments, `std::` and spaces.
    pub(super) head: Box<str>,
    /// What is between the angle brackets.
    pub(super) arguments: Vec<Name>,
    /// Whether it is a pointer to what the rest says.
    pub(super) is_pointer: bool,
}

/// Angle brackets within others at most.
const DEPTH_MAX: usize = 32;

impl Name {
    /// Takes a name apart; none if its brackets do not fit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let name = Self::next(&mut rest, 0)?;
        rest.trim().is_empty().then_some(name)
    }

    fn next(rest: &mut &str, depth: usize) -> Option<Self> {
        if depth > DEPTH_MAX {
            return None;
        }
        let end = rest.find(['<', '>', ',']).unwrap_or(rest.len());
        let mut words: Vec<&str> = rest[..end].split_whitespace().filter(|word| *word != "const").collect();
        *rest = &rest[end..];
        let mut arguments = Vec::new();
        if let Some(behind) = rest.strip_prefix('<') {
            *rest = behind;
            loop {
                arguments.push(Self::next(rest, depth + 1)?);
                let mark = rest.chars().next()?;
                *rest = &rest[1..];
                match mark {
                    ',' => {}
                    '>' => break,
                    _ => return None,
                }
            }
            // What is behind the brackets is of the name, too: a pointer's star, or a class within the class.
            let end = rest.find(['<', '>', ',']).unwrap_or(rest.len());
            words.extend(rest[..end].split_whitespace());
            *rest = &rest[end..];
        }
        let mut head = words.join(" ");
        let is_pointer = head.contains('*') || head.contains('&');
        head.retain(|letter| !matches!(letter, '*' | '&'));
        let head = head.trim().strip_prefix("std::").unwrap_or(head.trim()).into();
        Some(Self { head, arguments, is_pointer })
    }

    /// The name with all its arguments, as descriptions of classes are called: `pair<int,vector<float> >`.
    pub(super) fn full(&self) -> String {
        let mut full = String::from(&*self.head);
        if self.arguments.is_empty() {
            return full;
        }
        full.push('<');
        for (at, argument) in self.arguments.iter().enumerate() {
            if at > 0 {
                full.push(',');
            }
            full.push_str(&argument.full());
        }
        full.push_str(if full.ends_with('>') { " >" } else { ">" });
        full
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_taken_apart_and_put_together() {
        for (text, full) in [
            ("vector<vector<float> >", "vector<vector<float> >"),
            ("std::vector<std::vector<float>>", "vector<vector<float> >"),
            ("map<string, pair<unsigned int,const double> >", "map<string,pair<unsigned int,double> >"),
            (" unsigned  int ", "unsigned int"),
            ("a::b<c::d>", "a::b<c::d>"),
        ] {
            assert_eq!(Name::parse(text).unwrap().full(), full);
        }
        assert!(Name::parse("TObject*").unwrap().is_pointer);
        for text in ["vector<int", "vector<int>>", "a,b", "<".repeat(1000).as_str()] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
