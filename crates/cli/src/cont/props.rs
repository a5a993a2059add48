//! Container properties by name, as `daos` spells them.

use crate::failure::{Exit, Failure, Outcome};
use crate::output::hex;
use dolmen_env::{group_principal, user_principal};
use dolmen_types::{Durability, PropId, PropValue, Props};
use nix::unistd::{Group, User};
use serde_json::{Value, json};

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// From, to.
    Number(u64, u64),
    Text,
    Bytes,
    /// A number up to this with words for its values.
    Words(&'static [(u64, &'static str)], u64),
}

const LAYOUTS: Form = Form::Words(&[(0, "none"), (0, "unknown"), (1, "posix"), (2, "hdf5")], U32_MAX);
const CHECKSUMS: Form = Form::Words(
    &[
        (0, "off"),
        (1, "crc16"),
        (2, "crc32"),
        (3, "crc64"),
        (4, "sha1"),
        (5, "sha256"),
        (6, "sha512"),
        (7, "adler32"),
    ],
    7,
);
const SWITCH: Form = Form::Words(&[(0, "off"), (1, "on")], 1);
const DURABILITIES: Form =
    Form::Words(&[(Durability::Power as u64, "power"), (Durability::Process as u64, "process")], 1);

//= daos:src/include/daos_prop.h DAOS_PROP_CO_*
const TABLE: [(&str, PropId, Form); 28] = [
    ("label", PropId::CO_LABEL, Form::Text),
    ("layout_type", PropId::CO_LAYOUT_TYPE, LAYOUTS),
    ("layout_version", PropId::CO_LAYOUT_VER, Form::Number(0, U32_MAX)),
    ("cksum", PropId::CO_CSUM, CHECKSUMS),
    ("cksum_size", PropId::CO_CSUM_CHUNK_SIZE, Form::Number(1, U32_MAX)),
    ("srv_cksum", PropId(4102), SWITCH),
    ("rd_fac", PropId::CO_REDUN_FAC, Form::Number(0, 0)),
    ("rd_lvl", PropId(4104), Form::Words(&[(1, "rank"), (2, "node")], 254)),
    ("max_snapshot", PropId(4105), Form::Number(0, U32_MAX)),
    ("acl", PropId::CO_ACL, Form::Bytes),
    ("compression", PropId(4107), Form::Number(0, U32_MAX)),
    ("encryption", PropId(4108), Form::Number(0, 0)),
    ("owner", PropId::CO_OWNER, Form::Text),
    ("group", PropId::CO_OWNER_GROUP, Form::Text),
    ("dedup", PropId(4111), Form::Number(0, 2)),
    ("dedup_threshold", PropId(4112), Form::Number(1, U32_MAX)),
    ("roots", PropId::CO_ROOTS, Form::Bytes),
    ("status", PropId(4114), Form::Words(&[(0, "healthy")], 0)),
    ("alloc_oid", PropId(4115), Form::Number(0, u64::MAX)),
    ("ec_cell_sz", PropId(4116), Form::Number(4096, 1 << 20)),
    ("ec_pda", PropId(4117), Form::Number(0, U32_MAX)),
    ("rp_pda", PropId(4118), Form::Number(0, U32_MAX)),
    ("global_version", PropId(4119), Form::Number(4, 4)),
    ("scrub_disabled", PropId(4120), SWITCH),
    ("obj_version", PropId(4121), Form::Number(1, 1)),
    ("perf_domain", PropId(4122), Form::Number(0, U32_MAX)),
    ("durability", PropId::CO_DURABILITY, DURABILITIES),
    ("files", PropId::CO_FILES, Form::Words(&[(0, "nobody"), (1, "everyone")], 1)),
];

fn form(id: PropId) -> Form {
    TABLE.iter().find(|row| row.1 == id).map_or(Form::Bytes, |row| row.2)
}

const U32_MAX: u64 = u32::MAX as u64;

/// The name of a property.
pub(crate) fn name(id: PropId) -> &'static str {
    TABLE.iter().find(|row| row.1 == id).map_or("?", |row| row.0)
}

/// The property with this name.
pub(crate) fn id(name: &str) -> Outcome<PropId> {
    // What older scripts say.
    let name = if name == "cell_size" { "ec_cell_sz" } else { name };
    TABLE.iter().find(|row| row.0 == name).map(|row| row.1).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("there is no property {name}"))
            .hint(format!("see `{} cont get-prop POOL CONT`", crate::compat::called().unwrap_or("dolmen")))
    })
}

/// Those that may be set on a container that is there.
const SET_LATER: [PropId; 10] = [
    PropId::CO_LABEL,
    PropId(4102),
    PropId(4105),
    PropId(4107),
    PropId::CO_OWNER,
    PropId::CO_OWNER_GROUP,
    PropId(4111),
    PropId(4114),
    PropId(4120),
    PropId::CO_FILES,
];

/// Those of features that are not there: they can be off alone.
const NOT_YET: [PropId; 6] =
    [PropId::CO_REDUN_FAC, PropId(4105), PropId(4107), PropId(4108), PropId(4111), PropId(4120)];

/// Those that nobody sets.
const COMPUTED: [PropId; 3] = [PropId(4115), PropId(4119), PropId(4121)];

/// Properties of a new container, given as `name:value` or `name=value`.
pub(crate) fn parse(given: &[String]) -> Outcome<Props> {
    let mut props = Props::new();
    for pair in given {
        let (id, value) = parse_one(pair)?;
        let other = props.insert(id, value.clone()).filter(|other| *other != value);
        if let Some(other) = other {
            let (name, [one, two]) = (name(id), [&other, &value].map(|value| show(id, Some(value))));
            let why = format!("{name}:{one} and {name}:{two} contradict each other");
            return Err(Failure::new(Exit::Usage, why).hint("leave out one of them"));
        }
    }
    Ok(props)
}

/// The same for a container that is there.
pub(crate) fn parse_change(given: &[String]) -> Outcome<Props> {
    let props = parse(given)?;
    match props.keys().find(|id| !SET_LATER.contains(id)) {
        Some(id) => {
            let why = format!("{} cannot be set after the container was made", name(*id));
            Err(Failure::new(Exit::Usage, why)
                .hint(format!("give it to `{} cont create`", crate::compat::called().unwrap_or("dolmen"))))
        }
        None => Ok(props),
    }
}

fn parse_one(pair: &str) -> Outcome<(PropId, PropValue)> {
    let wrong = |hint: String| Failure::new(Exit::Usage, format!("{pair:?} is no property")).hint(hint);
    let Some((name, text)) = pair.split_once([':', '=']) else {
        return Err(wrong("write NAME:VALUE or NAME=VALUE".to_owned()));
    };
    let id = id(name)?;
    if COMPUTED.contains(&id) {
        let why = format!("{name} is computed, and nobody sets it");
        return Err(Failure::new(Exit::Usage, why));
    }
    if NOT_YET.contains(&id) {
        return match text {
            "0" | "off" => Ok((id, PropValue::Number(0))),
            _ => Err(Failure::new(Exit::Usage, format!("{name} is not available yet"))
                .hint(format!("leave it out, or say {name}:0"))),
        };
    }
    let number = || crate::size::parse(text).map_err(|_digits| wrong(format!("{name} is a number")));
    let value = match form(id) {
        Form::Text => {
            if [PropId::CO_OWNER, PropId::CO_OWNER_GROUP].contains(&id) {
                refuse_unknown(id, text)?;
                return Ok((id, PropValue::Text(by_name(id == PropId::CO_OWNER_GROUP, text.to_owned()))));
            }
            PropValue::Text(text.to_owned())
        }
        Form::Number(low, high) => match number()? {
            value if (low..=high).contains(&value) => PropValue::Number(value),
            value if low == high => return Err(wrong(format!("{name} can only be {low}, not {value}"))),
            value => return Err(wrong(format!("{name} is from {low} to {high}, not {value}"))),
        },
        Form::Bytes => return Err(wrong(format!("{name} cannot be set from here"))),
        Form::Words(words, high) => match words.iter().find(|(_, word)| word.eq_ignore_ascii_case(text)) {
            Some((number, _)) => PropValue::Number(*number),
            None => match number() {
                Ok(number) if number <= high => PropValue::Number(number),
                _ => {
                    let known: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
                    let hint = format!("{name} is one of {}", known.join(", "));
                    return Err(wrong(hint));
                }
            },
        },
    };
    Ok((id, value))
}

/// A user or group by the name that lists know him by: a number is that of whom this machine has a name for, as it is to a daemon,
/// which knows him by that name alone. Who gives a number is told.
pub(crate) fn by_name(is_group: bool, name: String) -> String {
    let local = name.strip_suffix('@').unwrap_or(&name);
    let is_name = match is_group {
        true => matches!(Group::from_name(local), Ok(Some(_))),
        false => matches!(User::from_name(local), Ok(Some(_))),
    };
    let Some(number) = local.parse().ok().filter(|_| !is_name) else { return name };
    let known = if is_group { group_principal(number) } else { user_principal(number) };
    if known != format!("{number}@") {
        dolmen_env::say(&format!("dolmen: {number} is {known} on this machine, and is named so"));
    }
    known
}

/// Refuses an owner or group that this machine knows nothing of: a container that is nobody's by a slip of the pen. Numbers
/// stand for themselves, and other domains are not ours to know.
pub(crate) fn refuse_unknown(id: PropId, name: &str) -> Outcome<()> {
    let Some(why) = is_unknown(id, name) else { return Ok(()) };
    let hint = "give a name that this machine knows (`getent passwd`, `getent group`), or a number; `daos cont set-owner \
                --no-check` takes one that only other machines or certificates know";
    Err(Failure::new(Exit::Usage, why).hint(hint))
}

/// What is said of an owner or group that this machine knows nothing of; `None` if it does.
pub(crate) fn is_unknown(id: PropId, name: &str) -> Option<String> {
    let local = name.strip_suffix('@').unwrap_or(name);
    if local.contains('@') {
        return None;
    }
    // A system that cannot be asked refuses nobody.
    let (kind, is_known) = match id {
        PropId::CO_OWNER | PropId::PO_OWNER => ("user", !matches!(User::from_name(local), Ok(None))),
        _ => ("group", !matches!(Group::from_name(local), Ok(None))),
    };
    (!is_known && local.parse::<u32>().is_err()).then(|| format!("there is no {kind} {local} here"))
}

/// A value for people; `-` for none.
pub(crate) fn show(id: PropId, value: Option<&PropValue>) -> String {
    match (value, form(id)) {
        (None, _) => "-".to_owned(),
        (Some(PropValue::Number(number)), Form::Words(words, _)) => words
            .iter()
            .find(|(known, _)| known == number)
            .map_or(number.to_string(), |(_, word)| (*word).to_owned()),
        (Some(PropValue::Number(number)), _) => number.to_string(),
        (Some(PropValue::Text(text)), _) => text.clone(),
        (Some(PropValue::Bytes(bytes)), _) if bytes.is_empty() => "-".to_owned(),
        (Some(PropValue::Bytes(bytes)), _) => format!("0x{}", hex(bytes)),
    }
}

/// A value for programs: words as words, numbers as numbers, bytes in hexadecimal.
pub(crate) fn to_json(id: PropId, value: &PropValue) -> Value {
    match value {
        PropValue::Number(number) if matches!(form(id), Form::Number(..)) => json!(number),
        PropValue::Bytes(bytes) => json!(hex(bytes)),
        value => json!(show(id, Some(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_read_and_shown() {
        let props = parse(&["durability:process".to_owned(), "owner=root@".to_owned()]).unwrap();
        assert_eq!(props[&PropId::CO_DURABILITY], PropValue::Number(1));
        assert_eq!(show(PropId::CO_DURABILITY, props.get(&PropId::CO_DURABILITY)), "process");
        assert_eq!(props[&PropId::CO_OWNER], PropValue::Text("root@".to_owned()));
        for wrong in
            ["owner:nobodyatall@", "group:nobodyatall", "nonsense:1", "durability:often", "rd_fac:x", "label"]
        {
            assert_eq!(parse(&[wrong.to_owned()]).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }
}
