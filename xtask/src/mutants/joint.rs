//! All mutants in one program: each function that a mutant changes begins with a choice of its bodies.
//!
//! So the tree is compiled once, not once a mutant; a variable of the environment says which mutant the program is.
//!
//! Invariants: without the variable every function has its own body; no two chosen bodies overlap.

use super::list::{Edit, Mutant};
use crate::source::lexer::Token;
use crate::source::{Function, SourceFile};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

/// The variable that names the mutant.
pub(super) const CHOICE: &str = "DOLMEN_MUTANT";

/// Asked by every function that has several bodies; each crate with mutants gets one.
const CHOOSER: &str = r#"
#[allow(clippy::disallowed_methods, reason = "a mutant is no production code")]
pub(crate) fn is_mutant(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("DOLMEN_MUTANT").ok()).as_deref() == Some(name)
}
"#;

/// The files that mutants change, with all of them in; a second list names the mutants that do not apply, and why.
pub(super) fn join(root: &Path, mutants: &[Mutant]) -> Result<(BTreeMap<String, String>, Vec<String>)> {
    let mut files: BTreeMap<&str, Joint> = BTreeMap::new();
    let mut broken = Vec::new();
    for mutant in mutants {
        for (path, edits) in by_file(&mutant.edits) {
            if !files.contains_key(path) {
                files.insert(path, Joint::read(root, path)?);
            }
            let joint = files.get_mut(path).context("just put there")?;
            if let Err(error) = joint.add(&mutant.name, &edits) {
                broken.push(format!("{}: {error:#}", mutant.name));
            }
        }
    }
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (path, joint) in files {
        texts.insert(path.to_owned(), joint.text());
    }
    let paths: Vec<String> = texts.keys().cloned().collect();
    for path in paths {
        let (folder, _) = path.split_once("/src/").with_context(|| format!("{path} is not in a crate"))?;
        let base = format!("{folder}/src/lib.rs");
        let text = match texts.remove(&base) {
            Some(text) => text,
            None => {
                std::fs::read_to_string(root.join(&base)).with_context(|| format!("cannot read {base}"))?
            }
        };
        let chosen = if text.ends_with(CHOOSER) { text } else { text + CHOOSER };
        texts.insert(base, chosen);
    }
    Ok((texts, broken))
}

fn by_file(edits: &[Edit]) -> BTreeMap<&str, Vec<&Edit>> {
    let mut files: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
    for edit in edits {
        files.entry(&edit.path).or_default().push(edit);
    }
    files
}

/// One file, and the other bodies of its functions.
struct Joint {
    text: String,
    /// What lies between the braces of each function that can have other bodies, in bytes.
    bodies: Vec<Range<usize>>,
    /// By start of the body: its end, and each mutant with the body that it has.
    choices: BTreeMap<usize, (usize, Vec<(String, String)>)>,
}

impl Joint {
    fn read(root: &Path, path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(Self::new(path, text))
    }

    fn new(path: &str, text: String) -> Self {
        let file = SourceFile::parse(path, &text);
        let functions = file.functions.iter().filter(|function| can_choose(&file.tokens, function));
        let bodies = functions
            .map(|function| {
                let (open, close) = (&file.tokens[function.body.start], &file.tokens[function.body.end - 1]);
                open.start + 1..close.start
            })
            .collect();
        Self { text, bodies, choices: BTreeMap::new() }
    }

    /// Adds one mutant; an error says why it cannot be put into a body.
    fn add(&mut self, name: &str, edits: &[&Edit]) -> Result<()> {
        let mut changed: BTreeMap<usize, Vec<(Range<usize>, &str)>> = BTreeMap::new();
        for edit in edits {
            let place = edit.place(&self.text)?;
            let around = self.bodies.iter().filter(|body| body.start <= place.start && place.end <= body.end);
            let body = around.min_by_key(|body| body.len());
            let body =
                body.with_context(|| format!("{}: the snippet is not inside one function", edit.path))?;
            ensure!(
                self.choices
                    .iter()
                    .all(|(&start, &(end, _))| start == body.start || body.end <= start || end <= body.start),
                "{}: another mutant changes a function in or around this one",
                edit.path
            );
            let (start, end) = (body.start, body.end);
            self.choices.entry(start).or_insert((end, Vec::new()));
            changed.entry(start).or_default().push((place, &edit.replace));
        }
        for (start, mut places) in changed {
            places.sort_by_key(|(place, _)| place.start);
            let (end, bodies) = self.choices.get_mut(&start).context("just put there")?;
            let mut body = String::new();
            let mut at = start;
            for (place, replace) in places {
                ensure!(at <= place.start, "two snippets of {name} overlap");
                body.push_str(&self.text[at..place.start]);
                body.push_str(replace);
                at = place.end;
            }
            body.push_str(&self.text[at..*end]);
            bodies.push((name.to_owned(), body));
        }
        Ok(())
    }

    /// The file with all bodies.
    fn text(&self) -> String {
        let mut out = String::new();
        let mut at = 0;
        for (&start, (end, bodies)) in &self.choices {
            out.push_str(&self.text[at..start]);
            for (name, body) in bodies {
                write!(out, " if crate::is_mutant({name:?}) {{{body}}} else").expect("a string takes all");
            }
            write!(out, " {{{}}}", &self.text[start..*end]).expect("a string takes all");
            at = *end;
        }
        out + &self.text[at..]
    }
}

/// What the compiler evaluates cannot ask the environment, and bodies that return some type return the same one.
fn can_choose(tokens: &[Token], function: &Function) -> bool {
    let before = tokens[..function.signature.start].iter().rev();
    let mut qualifiers = before.take_while(|word| !matches!(word.text.as_str(), "}" | ";" | "{" | "]"));
    let mut signature = tokens[function.signature.clone()].windows(2);
    qualifiers.all(|word| !word.is("const")) && signature.all(|pair| !(pair[0].is(">") && pair[1].is("impl")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "const fn c() { 0 }\nfn f(é: u8) -> u8 { é + 1 }\nfn g() { a(); b(); }\n\
                        fn i() -> impl Copy { 7 }\n";

    fn edit(find: &str, replace: &str) -> Edit {
        Edit { path: "crates/a/src/x.rs".into(), find: find.into(), replace: replace.into() }
    }

    #[test]
    fn each_mutant_is_a_body_and_none_is_the_own_one() {
        let mut joint = Joint::new("crates/a/src/x.rs", FILE.to_owned());
        joint.add("more", &[&edit("é + 1", "é + 2")]).expect("in a body");
        joint.add("less", &[&edit("é + 1", "é")]).expect("in a body");
        joint.add("none", &[&edit("b();", ""), &edit("a();", "z();")]).expect("in a body");
        assert_eq!(
            joint.text(),
            "const fn c() { 0 }\nfn f(é: u8) -> u8 { if crate::is_mutant(\"more\") { é + 2 } else if \
             crate::is_mutant(\"less\") { é } else { é + 1 }}\nfn g() { if crate::is_mutant(\"none\") { z();  } else \
             { a(); b(); }}\nfn i() -> impl Copy { 7 }\n"
        );
    }

    #[test]
    fn what_is_in_no_body_is_refused() {
        let mut joint = Joint::new("crates/a/src/x.rs", FILE.to_owned());
        for (find, replace) in
            [("0", "1"), ("7", "8"), ("fn g() { a();", "fn g() {"), ("c();", ""), ("u8", "u16")]
        {
            assert!(joint.add("m", &[&edit(find, replace)]).is_err(), "{find}");
        }
        assert!(joint.add("m", &[&edit("a(); b();", ""), &edit("b();", "")]).is_err());
    }

    #[test]
    fn the_variable_is_the_one_that_is_asked() {
        assert!(CHOOSER.contains(&format!("{CHOICE:?}")));
    }
}
