//! The engines of a system, as one file lists them for all.

use crate::error::{Error, Result, RosterFault};
use dolmen_codec::wire::RankInfo;
use dolmen_env::Address;
use dolmen_net::client::reach;
use dolmen_types::{Uuid, limits};
use toml::{Table, Value};

/// The engines of a system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roster {
    /// The system's name.
    pub name: String,
    /// Its engines, in the order of the file; pools are made at the first.
    pub engines: Vec<RankInfo>,
}

impl Roster {
    /// Reads a list in TOML: `name`, and for each engine a table `[[engine]]` with its `rank` and its `addresses`
    /// (`unix:` and an absolute path, `tcp://HOST:PORT`), the best way first.
    ///
    /// # Errors
    /// `Roster` with what is wrong and where.
    pub fn parse(text: &str) -> Result<Self> {
        let table: Table = match text.parse::<Table>() {
            Ok(table) => table,
            Err(error) => return wrong(RosterFault::Syntax { message: error.message().to_owned() }),
        };
        if let Some(key) = table.keys().find(|key| !["name", "engine"].contains(&key.as_str())) {
            return wrong(RosterFault::Unknown { key: key.clone() });
        }
        let name = table.get("name").and_then(Value::as_str).unwrap_or("dolmen");
        if name.is_empty() || name.len() > limits::LABEL_BYTES_MAX {
            return wrong(RosterFault::Name);
        }
        let listed = table.get("engine").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if listed.is_empty() || listed.len() > limits::TARGETS_MAX {
            return wrong(RosterFault::Count);
        }
        let engines = listed.iter().enumerate().map(|(at, engine)| engine_of(at, engine));
        let engines = engines.collect::<Result<Vec<RankInfo>>>()?;
        for (at, engine) in engines.iter().enumerate() {
            if engines[..at].iter().any(|other| other.rank == engine.rank) {
                return wrong(RosterFault::Twice { rank: engine.rank });
            }
        }
        Ok(Self { name: name.to_owned(), engines })
    }

    /// Where the engine `rank` is to listen.
    ///
    /// # Errors
    /// `Roster` if it is not listed, or a host is not found.
    pub fn addresses(&self, rank: u32) -> Result<Vec<Address>> {
        let engine = self.engines.iter().find(|engine| engine.rank == rank);
        let engine = engine.ok_or(Error::Roster(RosterFault::Unlisted { rank }))?;
        let found = engine.addresses.iter().map(|text| match reach::address(text) {
            Ok(Some(found)) => Ok(found),
            Ok(None) | Err(_) => wrong(RosterFault::Address { text: text.clone() }),
        });
        found.collect()
    }
}

fn engine_of(at: usize, engine: &Value) -> Result<RankInfo> {
    let number = engine.get("rank").and_then(Value::as_integer).and_then(|rank| u32::try_from(rank).ok());
    let Some(rank) = number else { return wrong(RosterFault::NoRank { engine: at + 1 }) };
    let listed = engine.get("addresses").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_address = |text: &&str| text.starts_with("unix:/") || text.starts_with("tcp://");
    let text = |value: &Value| value.as_str().filter(is_address).map(str::to_owned);
    let addresses: Option<Vec<String>> = listed.iter().map(text).collect();
    match addresses.filter(|all| (1..=limits::RANK_ADDRESSES_MAX).contains(&all.len())) {
        Some(addresses) => Ok(RankInfo { rank, uuid: Uuid::nil(), addresses }),
        None => wrong(RosterFault::NoAddresses { engine: at + 1 }),
    }
}

fn wrong<T>(fault: RosterFault) -> Result<T> {
    Err(Error::Roster(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_engines_is_read_in_its_order() {
        let text = "name = \"lab\"\n[[engine]]\nrank = 3\naddresses = [\"unix:/a\"]\n\
                    [[engine]]\nrank = 1\naddresses = [\"tcp://127.0.0.1:7\", \"unix:/b\"]\n";
        let roster = Roster::parse(text).unwrap();
        let ranks: Vec<u32> = roster.engines.iter().map(|engine| engine.rank).collect();
        assert_eq!((roster.name.as_str(), ranks), ("lab", vec![3, 1]));
        assert_eq!(roster.addresses(1).unwrap().len(), 2);
        assert_eq!(roster.addresses(2), Err(Error::Roster(RosterFault::Unlisted { rank: 2 })));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        let engine = "[[engine]]\nrank = 0\naddresses = [\"unix:/a\"]\n";
        let no_addresses = RosterFault::NoAddresses { engine: 1 };
        for (text, fault) in [
            ("", RosterFault::Count),
            ("[[engine]]\naddresses = [\"unix:/a\"]\n", RosterFault::NoRank { engine: 1 }),
            ("[[engine]]\nrank = -1\naddresses = [\"unix:/a\"]\n", RosterFault::NoRank { engine: 1 }),
            ("[[engine]]\nrank = 0\naddresses = [\"/a\"]\n", no_addresses.clone()),
            ("[[engine]]\nrank = 0\naddresses = [\"unix:a\"]\n", no_addresses.clone()),
            ("[[engine]]\nrank = 0\n", no_addresses),
            (&[engine, engine].concat(), RosterFault::Twice { rank: 0 }),
            (&["nam = 1\n", engine].concat(), RosterFault::Unknown { key: "nam".to_owned() }),
            (&["name = \"\"\n", engine].concat(), RosterFault::Name),
        ] {
            assert_eq!(Roster::parse(text), Err(Error::Roster(fault)), "{text}");
        }
        assert!(matches!(Roster::parse("name = 3 4"), Err(Error::Roster(RosterFault::Syntax { .. }))));
    }
}
