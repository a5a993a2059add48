//! Object classes that can be placed, fixed when an object id is made.

use dolmen_types::{Invalid, ObjectClass, ObjectType, Redundancy};

/// The class that an object id gets: the automatic class is chosen, "as many groups as fit" becomes the
/// number of groups that fit into `target_count` targets now.
///
/// # Errors
/// `Invalid::ObjectId` for a number that is no class, and for every class or redundancy factor that asks for
/// more than one copy: what cannot be protected is refused, never stored unprotected.
//= daos:src/object/obj_class.c dc_set_oclass
pub fn resolve_class(
    class: ObjectClass,
    object_type: ObjectType,
    redundancy_factor: u64,
    target_count: u16,
) -> Result<ObjectClass, Invalid> {
    if redundancy_factor != 0 || target_count == 0 {
        return Err(Invalid::ObjectId);
    }
    let class = if class == ObjectClass::UNKNOWN { automatic(object_type) } else { class };
    check(class)?;
    Ok(if class.is_widest() { ObjectClass::from_parts(class.ordinal(), target_count) } else { class })
}

/// Arrays and flat key-values are spread over all targets, everything else lies on one.
fn automatic(object_type: ObjectType) -> ObjectClass {
    if object_type.is_array() || object_type.is_kv() { ObjectClass::SX } else { ObjectClass::S1 }
}

/// Whether objects of the class can be placed. As many copies as there are engines is one copy: whoever makes the id looks
/// whether there is one engine.
pub(crate) fn check(class: ObjectClass) -> Result<(), Invalid> {
    let is_single = class.redundancy() == Some(Redundancy::Replicas(1));
    let known = is_single && (class.ordinal() == 1 || class == ObjectClass::RP_XSF);
    if known && class.groups() > 0 { Ok(()) } else { Err(Invalid::ObjectId) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str, object_type: ObjectType) -> Result<ObjectClass, Invalid> {
        resolve_class(ObjectClass::from_name(name).unwrap(), object_type, 0, 6)
    }

    #[test]
    fn widest_becomes_the_number_of_targets_now() {
        assert_eq!(resolve("SX", ObjectType::MultiHashed), Ok(ObjectClass::from_parts(1, 6)));
        assert_eq!(resolve("S4", ObjectType::Array), Ok(ObjectClass::S4));
        assert_eq!(resolve("S8", ObjectType::Array), Ok(ObjectClass::from_parts(1, 8)));
    }

    #[test]
    fn the_automatic_class_spreads_arrays_and_key_values() {
        for (object_type, groups) in
            [(ObjectType::ArrayByte, 6), (ObjectType::KvLexical, 6), (ObjectType::MultiHashed, 1)]
        {
            let class = resolve_class(ObjectClass::UNKNOWN, object_type, 0, 6);
            assert_eq!(class, Ok(ObjectClass::from_parts(1, groups)), "{object_type:?}");
        }
    }

    #[test]
    fn protection_that_does_not_exist_yet_is_refused() {
        for name in ["RP_2G1", "RP_3GX", "EC_4P2GX"] {
            assert_eq!(resolve(name, ObjectType::Array), Err(Invalid::ObjectId), "{name}");
        }
        assert_eq!(resolve("RP_XSF", ObjectType::Array), Ok(ObjectClass::RP_XSF));
        let wider = ObjectClass::from_parts(ObjectClass::RP_XSF.ordinal(), 2);
        assert_eq!(resolve_class(wider, ObjectType::Array, 0, 6), Err(Invalid::ObjectId));
        assert_eq!(resolve_class(ObjectClass::RP_XSF, ObjectType::Array, 1, 6), Err(Invalid::ObjectId));
        assert_eq!(resolve_class(ObjectClass::S1, ObjectType::Array, 1, 6), Err(Invalid::ObjectId));
        assert_eq!(resolve_class(ObjectClass(0x0500_0001), ObjectType::Array, 0, 6), Err(Invalid::ObjectId));
        assert_eq!(resolve_class(ObjectClass(0x0100_0000), ObjectType::Array, 0, 6), Err(Invalid::ObjectId));
    }
}
