//! What mounts need of the parts of this library that open pools and containers.

use crate::cont::ContHandle;
use crate::error::PosixResult;
use crate::place::Place;
use crate::raw::Out;
use dolmen_client::{PropId, PropValue, Props};

/// The name by which another process finds the same system.
pub(super) fn system_name(place: &Place) -> String {
    match place {
        Place::Dir(dir) => format!("file:{}", dir.display()),
        Place::Socket(path) => format!("unix:{}", path.display()),
        Place::Hosts(hosts) => hosts.clone(),
        Place::Named(name) => name.clone(),
    }
}

/// The properties that a caller wants a container to have.
pub(super) fn props_of(_props: Out<u8>) -> PosixResult<Props> {
    Ok(Props::new())
}

/// Sets the owners that a container tells.
pub(super) fn set_owner(cont: &ContHandle, user: Option<&str>, group: Option<&str>) -> PosixResult<()> {
    let named = [(PropId::CO_OWNER, user), (PropId::CO_OWNER_GROUP, group)];
    let mut props = Props::new();
    for (id, name) in named {
        props.extend(name.map(|name| (id, PropValue::Text(name.to_owned()))));
    }
    if props.is_empty() { Ok(()) } else { Ok(cont.client.set_props(&props)?) }
}
