//! `//= daos:src/include/daos_obj.h OC_*`: what we are compatible with, above the code that obeys it.

use super::Finding;
use crate::source::{SourceFile, Tree};

/// Sources that may be cited.
const SOURCES: [&str; 7] = ["daos", "root", "posix", "linux", "rfc", "grib", "s3"];

const FORM: &str = "write `//= <source>:<path> <what>`, for instance `//= daos:src/include/daos_obj.h OC_*`";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(|(_, file)| check_file(file)).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for comment in file.comments.iter().filter(|c| c.text.starts_with("//=") && !c.text.starts_with("//==")) {
        if !is_citation(&comment.text) {
            found.push(Finding::new(&file.path, comment.line, "citation of unknown form", FORM));
        } else if !obeyed(file, comment.line) {
            found.push(Finding::new(
                &file.path,
                comment.line,
                "citation above nothing",
                "put it right above the code that obeys it",
            ));
        }
    }
    found
}

fn is_citation(text: &str) -> bool {
    let Some((source, rest)) = text.strip_prefix("//= ").and_then(|t| t.split_once(':')) else {
        return false;
    };
    SOURCES.contains(&source) && !rest.is_empty() && !rest.starts_with(char::is_whitespace)
}

/// The next line that is not a comment or an attribute holds code.
fn obeyed(file: &SourceFile, line: usize) -> bool {
    let next =
        file.lines[line..].iter().map(|l| l.trim()).find(|l| !l.starts_with("//") && !l.starts_with("#["));
    next.is_some_and(|l| !l.is_empty() && l != "}")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    #[test]
    fn the_form_is_held() {
        let text = "//= daos:src/include/daos_obj.h OC_*\nconst A: u8 = 1;\n//= DAOS object classes\nconst B: u8 = 1;\n//=daos:x\nconst C: u8 = 1;\n";
        assert_eq!(lines(check, text), [3, 5]);
    }

    #[test]
    fn a_citation_stands_above_code() {
        assert_eq!(lines(check, "//= posix:rename\n\nfn f() {}\n"), [1]);
        assert_eq!(lines(check, "//= posix:rename\n/// Docs.\n#[inline]\nfn f() {}\n"), [0_usize; 0]);
    }
}
