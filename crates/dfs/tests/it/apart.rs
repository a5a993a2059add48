//! Targets that go by clocks of their own, as those of several engines do.

use dolmen_codec::{Completion, Op, Progress, TargetStore};

/// A store that neither tells others how far it is nor goes by what they are ahead.
pub(crate) struct Apart<T>(pub(crate) T);

impl<T: TargetStore> TargetStore for Apart<T> {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        self.0.submit(ops);
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.0.poll(wait, out);
    }

    fn step(&mut self) -> Progress {
        self.0.step()
    }
}
