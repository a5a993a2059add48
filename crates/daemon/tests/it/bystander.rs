//! A client that does nothing wrong.

use crate::common::{create, pool};
use dolmen_client::{At, Container, Object, Pool};
use dolmen_codec::pool::ContName;
use dolmen_net::client::Link;
use dolmen_types::{IoBuf, Label, ObjectClass, ObjectType, Props};

pub(crate) const POOL: &str = "p";
pub(crate) const CONT: &str = "field";

pub(crate) struct Bystander {
    pub(crate) pool: Pool,
    pub(crate) cont: Container,
    pub(crate) object: Object,
    turns: u64,
}

impl Bystander {
    /// Makes a pool and a container in it.
    pub(crate) fn first(link: Link) -> Self {
        create(&link, POOL);
        let pool = pool(&link, POOL);
        pool.create_container(Some(Label::new(CONT).unwrap()), Props::default()).unwrap();
        Self::of(&link)
    }

    /// Opens what is there.
    pub(crate) fn of(link: &Link) -> Self {
        let pool = pool(link, POOL);
        let cont = pool.open_container(&ContName::Label(Label::new(CONT).unwrap())).unwrap();
        let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
        let object = cont.object(oid).unwrap();
        Self { pool, cont, object, turns: 0 }
    }

    /// Writes and reads small and large values.
    pub(crate) fn goes_on(&mut self) {
        self.try_to_go_on().unwrap();
    }

    /// The same, if the daemon answers in time; what it answers must be right.
    pub(crate) fn try_to_go_on(&mut self) -> dolmen_types::Result<()> {
        for len in [1, 64, 4096, 100_000, 1 << 20, 6 << 20] {
            self.turns += 1;
            let value: Vec<u8> = (self.turns..).map(|at| (at % 251).to_le_bytes()[0]).take(len).collect();
            let dkey = (self.turns % 64).to_le_bytes();
            self.object.put(At::Latest, &dkey, b"a", &value)?;
            let mut buf = IoBuf::default();
            let found = self.object.get(At::Latest, &dkey, b"a", &mut buf)?;
            assert_eq!(found, Some(len));
            assert!(buf[..] == value[..], "turn {}: {len} bytes came back changed", self.turns);
        }
        Ok(())
    }

    /// Handles that all have on the container.
    pub(crate) fn handle_count(&self) -> u32 {
        self.cont.query().unwrap().handles
    }
}
