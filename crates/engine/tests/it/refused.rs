//! An update that is refused takes no space.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{NewValue, Payload, Reply, SpaceReport, Verb};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_types::{Cond, Durability, Error};

fn space(rig: &mut Rig) -> SpaceReport {
    match rig.ask(Verb::Space).unwrap() {
        Reply::Space(report) => report,
        other => panic!("{other:?}"),
    }
}

fn tight() -> TargetConfig {
    TargetConfig {
        capacity_bytes: 3 << 20,
        log_segment_bytes: 64 << 10,
        bulk_segment_bytes: 256 << 10,
        ..small_config()
    }
}

#[test]
fn a_refused_update_takes_no_space() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, tight());
        rig.put(oid(1), b"d", b"a", &[1; 20_000]).unwrap();
        let before = space(&mut rig);
        for _ in 0..200 {
            let value = NewValue::Single(Payload::Ref(&[2; 20_000]));
            let refused = rig.update(oid(1), b"d", Cond::DKEY_INSERT, b"a", value);
            assert_eq!(refused, Err(Error::Exists));
        }
        assert_eq!(space(&mut rig).bulk_bytes, before.bulk_bytes);
        rig.assert_clean();
    }
}
