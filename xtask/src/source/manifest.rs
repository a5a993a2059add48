//! The few parts of a `Cargo.toml` that tidy needs: dependencies, features and whether the lints are inherited.
//!
//! A line parser instead of a TOML library, so that `cargo xtask` builds in seconds; it covers the forms this
//! repository uses (`name = ...`, `name.workspace = true`, `[dependencies.name]`, tables per target).

use std::collections::BTreeMap;

/// Which of Cargo's three dependency tables an entry stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Normal,
    Dev,
    Build,
}

/// One dependency; `name` is the package, `alias` the name that code uses.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) table: Table,
    pub(crate) name: String,
    pub(crate) alias: String,
    pub(crate) line: usize,
    /// The version comes from the root manifest.
    pub(crate) inherited: bool,
}

/// What tidy knows about one package.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) package: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Feature name to (line, what it switches on).
    pub(crate) features: BTreeMap<String, (usize, String)>,
    pub(crate) inherits_lints: bool,
    pub(crate) text: String,
}

impl Manifest {
    /// Parses the text of a `Cargo.toml`; what it does not understand it ignores, Cargo reports it anyway.
    pub(crate) fn parse(text: &str) -> Manifest {
        let mut manifest = Manifest { text: text.to_owned(), ..Manifest::default() };
        let mut section = String::new();
        let mut pending: Option<(usize, String)> = None;
        for (index, raw) in text.lines().enumerate() {
            let line = without_comment(raw).trim();
            let (number, entry) = match pending.take() {
                Some((start, text)) => (start, format!("{text} {line}")),
                None => (index + 1, line.to_owned()),
            };
            if let Some(name) = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']')) {
                section = name.trim_matches(['[', ']']).trim().to_owned();
                manifest.open_section(&section, number);
            } else if entry.matches(['[', '{']).count() > entry.matches([']', '}']).count() {
                pending = Some((number, entry));
            } else if let Some((key, value)) = entry.split_once('=') {
                manifest.entry(&section, key.trim(), value.trim(), number);
            }
        }
        manifest
    }

    fn open_section(&mut self, section: &str, line: usize) {
        if let Some((table, Some(name))) = dependency_section(section) {
            self.dependency(table, name, line);
        }
    }

    fn dependency(&mut self, table: Table, alias: &str, line: usize) {
        let alias = alias.trim_matches('"').to_owned();
        self.dependencies.push(Dependency { table, name: alias.clone(), alias, line, inherited: false });
    }

    fn entry(&mut self, section: &str, key: &str, value: &str, line: usize) {
        match (section, key) {
            ("package", "name") => self.package = value.trim_matches('"').to_owned(),
            ("lints", "workspace") => self.inherits_lints = value == "true",
            ("features", _) => {
                self.features.insert(key.trim_matches('"').to_owned(), (line, value.to_owned()));
            }
            _ => self.dependency_entry(section, key, value, line),
        }
    }

    fn dependency_entry(&mut self, section: &str, key: &str, value: &str, line: usize) {
        let Some((table, name)) = dependency_section(section) else { return };
        if name.is_none() {
            self.dependency(table, key.split('.').next().unwrap_or(key), line);
        }
        let Some(dependency) = self.dependencies.last_mut() else { return };
        let field = if name.is_some() { key } else { key.split_once('.').map_or("", |(_, field)| field) };
        dependency.inherited |=
            (field == "workspace" && value == "true") || inline(value, "workspace") == Some("true");
        if let Some(package) = inline(value, "package").or((field == "package").then_some(value)) {
            dependency.name = package.trim_matches('"').to_owned();
        }
    }
}

/// `dependencies`, `dev-dependencies.x`, `target.'cfg(unix)'.dependencies`: the table, and the name in the header.
fn dependency_section(section: &str) -> Option<(Table, Option<&str>)> {
    let tail = match section.strip_prefix("target.") {
        Some(rest) => {
            &rest[rest.find("dependencies").map(|i| rest[..i].rfind('.').map_or(0, |d| d + 1))?..]
        }
        None => section,
    };
    let (table, name) = tail.split_once('.').map_or((tail, None), |(table, name)| (table, Some(name)));
    let table = match table {
        "dependencies" => Table::Normal,
        "dev-dependencies" => Table::Dev,
        "build-dependencies" => Table::Build,
        _ => return None,
    };
    Some((table, name))
}

/// The value of `key` in an inline table such as `{ workspace = true, package = "x" }`.
fn inline<'a>(value: &'a str, key: &str) -> Option<&'a str> {
    let inner = value.strip_prefix('{')?.strip_suffix('}')?;
    inner.split(',').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[package]
name = "dolmen-engine" # the store
[lints]
workspace = true
[dependencies]
dolmen-types.workspace = true
codec = { workspace = true, package = "dolmen-codec" }
rustix = { version = "1", features = [
  "fs", # files
] }
[target.'cfg(target_os = "linux")'.dependencies]
io-uring = { workspace = true }
[dev-dependencies.proptest]
workspace = true
[features]
default = []
fast = ["dep:x"]
"#;

    fn of(manifest: &Manifest, table: Table) -> impl Iterator<Item = &Dependency> {
        manifest.dependencies.iter().filter(move |d| d.table == table)
    }

    #[test]
    fn every_form_of_dependency_is_seen() {
        let manifest = Manifest::parse(TEXT);
        assert_eq!(manifest.package, "dolmen-engine");
        assert!(manifest.inherits_lints);
        let normal: Vec<_> =
            of(&manifest, Table::Normal).map(|d| (d.name.as_str(), d.line, d.inherited)).collect();
        assert_eq!(
            normal,
            [
                ("dolmen-types", 7, true),
                ("dolmen-codec", 8, true),
                ("rustix", 9, false),
                ("io-uring", 13, true)
            ]
        );
        let dev: Vec<_> = of(&manifest, Table::Dev).map(|d| (d.name.as_str(), d.inherited)).collect();
        assert_eq!(dev, [("proptest", true)]);
    }

    #[test]
    fn features_keep_their_value() {
        let manifest = Manifest::parse(TEXT);
        assert_eq!(manifest.features.get("fast").map(|(_, v)| v.as_str()), Some("[\"dep:x\"]"));
        assert_eq!(manifest.features.len(), 2);
    }
}
