//! Keys that are alike for whoever knows how the engine mixes them, but not the secret of the container.

use crate::rig::Rig;
use dolmen_codec::verb::{ReadAt, Want};
use dolmen_env::Media;
use dolmen_types::{Durability, Error, ObjectClass, ObjectType, Oid, Recx};
use smallvec::smallvec;

/// Akeys with one `akey_hash` below dkey 7 of this object in container 1.
const COLLIDING: [u64; 2] = [0x100, 0xd825_8210_de15_35aa];

#[test]
fn akeys_whose_unkeyed_hashes_collide_keep_record_sizes_of_their_own() {
    let oid = Oid::new(ObjectType::MultiUint64, ObjectClass::S1, 0, 1);
    let dkey = 7u64.to_le_bytes();
    for [wide, narrow] in [COLLIDING, [COLLIDING[1], COLLIDING[0]]].map(|pair| pair.map(u64::to_le_bytes)) {
        let mut rig = Rig::new(Media::Block, Durability::Power);
        rig.write(oid, &dkey, &narrow, 0, 1, b"abcdefgh").unwrap();
        rig.write(oid, &dkey, &wide, 0, 8, b"12345678").unwrap();
        let refused = rig.write(oid, &dkey, &narrow, 3, 8, b"12345678");
        assert_eq!(refused, Err(Error::RecordSize { stored_bytes: 1 }));
        let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 8)] };
        let (_, _, bytes) = rig.fetch(oid, &dkey, &narrow, want, 8, ReadAt::Latest).unwrap();
        assert_eq!(&bytes[..], b"abcdefgh");
        rig.assert_clean();
    }
}
