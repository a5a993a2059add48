//! Every scripted case on a store that holds something else already: each in containers of its own, as a client of
//! its own, all on one target.
//!
//! `BESIDE_STORE` names the directory of a store that is there, as `dolmen bench engine --large --keep` leaves it;
//! without it the test makes a small one.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{ContSpec, ContVerb, Reply, Verb};
use dolmen_codec::{Completion, Op, Progress, TargetStore};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::{Clock as _, Media, RealClock, RealDisk, SimClock};
use dolmen_sim::{Subject, conformance};
use dolmen_types::{ContNo, Durability, Head, TargetNo};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Values in the store that the test makes.
const VALUES: u32 = 20_000;
/// Containers that one case may use.
const CONTAINERS: u32 = 1000;

/// Cases set the clock back by an hour, and let less than that pass.
const CASE_NS: u64 = 3 * 3_600_000_000_000;

/// The target, whose containers and clients are shifted by the number of the case.
struct Beside {
    dir: PathBuf,
    config: TargetConfig,
    clock: SimClock,
    target: Option<Target>,
    case: u32,
}

impl Beside {
    fn open(&mut self) {
        // The old one first: it owns the files.
        self.target = None;
        let clock = Arc::new(self.clock.clone());
        self.target = Some(Target::open(devices(&self.dir), clock, &self.config).unwrap().0);
    }

    /// Aborts what a case has left undecided, so that the next one does not meet it.
    fn settle(&mut self) {
        let Reply::InDoubt(undecided) = self.ask(Verb::InDoubt) else { panic!("no list") };
        for left in undecided {
            assert!(matches!(self.ask(Verb::Abort(left.tx)), Reply::Done), "{left:?}");
        }
    }

    fn ask(&mut self, verb: Verb<'_>) -> Reply {
        let target = self.target.as_mut().unwrap();
        target.submit(&mut vec![Op { token: 1, head: Head::default(), cont: ContNo(1), verb }]);
        let mut out = Vec::new();
        while out.is_empty() {
            target.poll(true, &mut out);
        }
        out.pop().unwrap().result.unwrap()
    }
}

impl TargetStore for Beside {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        for op in ops.iter_mut() {
            op.cont.0 += self.case * CONTAINERS;
            // No client, no id: nothing that could be taken for another case's.
            if op.head.id.client != 0 {
                op.head.id.client ^= u128::from(self.case) << 64;
            }
        }
        self.target.as_mut().unwrap().submit(ops);
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.target.as_mut().unwrap().poll(wait, out);
    }

    fn step(&mut self) -> Progress {
        self.target.as_mut().unwrap().step()
    }
}

impl Subject for Beside {
    fn store(&mut self) -> &mut dyn TargetStore {
        self
    }

    fn target(&self) -> TargetNo {
        self.config.target
    }

    fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    fn restart(&mut self) {
        self.target.take().unwrap().close().unwrap();
        self.open();
    }

    /// The process is gone; what it wrote is in files.
    fn crash(&mut self) {
        self.open();
    }
}

fn devices(dir: &Path) -> Devices {
    Devices { meta: Box::new(RealDisk::open(dir).unwrap()), bulk: None }
}

/// A store whose metadata is many times its budget of memory.
fn make(dir: &Path, config: &TargetConfig, clock: &SimClock) {
    std::fs::create_dir_all(dir).unwrap();
    let mut rig = Rig::bare(Media::Block, config.clone());
    let clock = Arc::new(clock.clone());
    rig.target = Some(Target::create(devices(dir), clock, 7, config).unwrap());
    let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Process };
    rig.ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
    for number in 0..VALUES {
        rig.put(oid(1), &number.to_le_bytes(), b"a", &[7; 64]).unwrap();
    }
    rig.target.take().unwrap().close().unwrap();
}

#[test]
fn every_case_passes_beside_what_is_there_already() {
    let clock = SimClock::new(RealClock.now_ns());
    let given = std::env::var_os("BESIDE_STORE").map(PathBuf::from);
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = parent.join(format!("dolmen-beside.{}", std::process::id()));
    let (dir, config) = match &given {
        Some(dir) => {
            (dir.clone(), TargetConfig { memory_budget_bytes: 768 << 20, ..TargetConfig::default() })
        }
        None => {
            let config = TargetConfig {
                capacity_bytes: 1 << 30,
                log_segment_bytes: 1 << 20,
                bulk_segment_bytes: 64 << 20,
                memory_budget_bytes: 1 << 20,
                checkpoint_log_bytes: 2 << 20,
                ..small_config()
            };
            make(&own, &config, &clock);
            (own.clone(), config)
        }
    };
    let mut beside = Beside { dir, config, clock, target: None, case: 0 };
    beside.open();
    for (name, case) in conformance::CASES.iter().copied().flatten() {
        println!("{name}");
        beside.case += 1;
        // Ahead of all that cases before it have made of the clock.
        beside.clock.advance(CASE_NS);
        case(&mut conformance::Harness::new(&mut beside));
        beside.settle();
    }
    let Reply::Audited(audit) = beside.ask(Verb::Check) else { panic!("no audit") };
    assert_eq!(audit.findings, []);
    assert!(audit.versions >= u64::from(VALUES), "{} versions", audit.versions);
    beside.target.take().unwrap().close().unwrap();
    if given.is_none() {
        std::fs::remove_dir_all(&own).unwrap();
    }
}
