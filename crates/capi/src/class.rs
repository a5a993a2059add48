//! Object classes by name.

use crate::error::silent;
use crate::raw::{Out, Text};
use core::ffi::c_int;
use dolmen_client::ObjectClass;

/// Room for a name with its zero.
//= daos:src/include/daos_obj_class.h MAX_OBJ_CLASS_NAME_LEN
const NAME_BYTES: usize = 24;

/// Redundancy and numbers of groups of the classes that have names.
const STEMS: [&str; 17] = [
    "S", "RP_2G", "RP_3G", "RP_4G", "RP_5G", "RP_6G", "EC_2P1G", "EC_2P2G", "EC_4P1G", "EC_4P2G", "EC_4P3G",
    "EC_8P1G", "EC_8P2G", "EC_8P3G", "EC_16P1G", "EC_16P2G", "EC_16P3G",
];
const GROUPS: [&str; 9] = ["1", "2", "4", "6", "8", "12", "16", "32", "X"];

/// The id of a class by its name; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn daos_oclass_name2id(name: Text) -> c_int {
    silent(0, || {
        let class = name.str().ok().and_then(ObjectClass::from_name);
        class.map_or(0, |class| c_int::try_from(class.0).unwrap_or(0))
    })
}

/// The name of a class; -1 and `UNKNOWN` if it is none.
#[unsafe(no_mangle)]
extern "C" fn daos_oclass_id2name(class: u32, name: Out<u8>) -> c_int {
    silent(-1, || {
        let class = ObjectClass(class);
        let text = class.to_string();
        let is_known = class.redundancy().is_some() && class.groups() > 0 && text.len() < NAME_BYTES;
        let text = if is_known { text.as_str() } else { "UNKNOWN" };
        let written = name.copy_from(text.as_bytes()).and_then(|()| name.at(text.len()).set(0));
        if is_known && written.is_ok() { 0 } else { -1 }
    })
}

/// All names, with commas between them; how many bytes they have, or -1 if they do not fit.
#[unsafe(no_mangle)]
extern "C" fn daos_oclass_names_list(size: usize, to: Out<u8>) -> isize {
    silent(-1, || {
        let all = STEMS.iter().flat_map(|stem| GROUPS.iter().map(move |groups| format!("{stem}{groups}")));
        let named = all.filter(|name| ObjectClass::from_name(name).is_some());
        let text = named.chain(["RP_XSF".to_owned()]).collect::<Vec<_>>().join(", ");
        if text.len() >= size {
            return -1;
        }
        let written = to.copy_from(text.as_bytes()).and_then(|()| to.at(text.len()).set(0));
        if written.is_ok() { isize::try_from(text.len()).unwrap_or(-1) } else { -1 }
    })
}
