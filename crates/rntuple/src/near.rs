//! Names that are almost those that were asked for.

/// Characters at most that are different in names that one is taken for the other.
const NEAR_MAX: usize = 2;

/// The one of some names that is nearest to what is none of them, if it is near; of what has dots, as what is within others, that before these.
#[must_use]
pub fn near<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some((top, _)) = name.split_once('.')
        && let Some(found) = names.iter().find(|other| **other == top)
    {
        return Some(found);
    }
    let counted = names.into_iter().map(|other| (differences(name, other), other));
    let (count, nearest) = counted.min()?;
    (count <= NEAR_MAX.min(nearest.chars().count() / 2)).then_some(nearest)
}

/// How many characters have to be left out, put in or replaced so that one name is the other, in whatever case.
fn differences(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut counts: Vec<usize> = (0..=other.len()).collect();
    for (at, is) in one.to_lowercase().chars().enumerate() {
        let mut before = core::mem::replace(&mut counts[0], at + 1);
        for (to, &was) in other.iter().enumerate() {
            let replaced = before + usize::from(is != was);
            before = counts[to + 1];
            counts[to + 1] = replaced.min(before + 1).min(counts[to] + 1);
        }
    }
    counts[other.len()]
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn a_name_is_near_that_differs_in_a_few_of_its_characters_or_in_their_case() {
        let names = ["Muon_pt", "Muon_eta", "met", "x"];
        for (name, found) in [
            ("Muon_pT", Some("Muon_pt")),
            ("muon_ept", Some("Muon_pt")),
            ("Muon.eta", Some("Muon_eta")),
            ("mte", None),
            ("MET", Some("met")),
            ("meta", Some("met")),
            ("y", None),
            ("", None),
            ("met.x", Some("met")),
        ] {
            assert_eq!(near(name, names), found, "{name}");
        }
        assert_eq!(near("met", []), None);
    }
}
