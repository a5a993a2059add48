//! The process that goes about beside a client: it does to the daemon, over and over, what none should do.
//!
//! It says on its standard output when it is ready, begins when it is told a line, ends at the next line or when nobody is
//! there any more, and then says how much it has done.

use super::Way;
use super::disturbed::Beside;
use super::rude::{Rude, fetch, hello, push, silent, update};
use crate::error::{Error, Result};
use core::time::Duration;
use dolmen_env::Address;
use dolmen_net::Stream;
use dolmen_net::client::reach;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// What this process is called among the parts of measurements.
pub(crate) const SCENARIO: &str = "disturber";

const WAYS: [Way; 3] = [Way::Rings, Way::Socket, Way::Tcp];

/// Connections at once of the crowd that comes and goes.
const AT_ONCE: usize = 100;
/// Good frames before a bad one.
const GOOD_FRAMES: usize = 1;
/// What is sent for a greeting, over and over, by who is none of us.
const GARBAGE_BYTES: usize = 1 << 20;
/// Connections that read slowly.
const SLOW_READERS: usize = 30;
/// Answers that each of them has asked for, and their bytes.
const SLOW_ANSWERS: usize = 50;
const SLOW_BYTES: usize = 1 << 20;
/// Between two turns of all of them.
const SLOW_PAUSE: Duration = Duration::from_millis(1);

/// What it is to do, and to whom.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) beside: Beside,
    pub(super) unix: String,
    pub(super) tcp: String,
}

/// What it has found.
struct Scene {
    /// The number of this process.
    process: u32,
    unix: Address,
    tcp: Address,
    is_over: AtomicBool,
}

impl Scene {
    fn address(&self, way: Way) -> &Address {
        if way == Way::Tcp { &self.tcp } else { &self.unix }
    }

    /// The number of a client of this process, which no other one has had: its requests are new.
    fn client(&self, number: u64) -> u128 {
        u128::from(self.process) << 64 | u128::from(number)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Does what it is told.
pub(crate) fn run(spec: &str) -> Result<()> {
    let orders: Orders = serde_json::from_str(spec).map_err(|_not_ours| unknown())?;
    let address = |text: &str| reach::address(text)?.ok_or_else(unknown);
    let (unix, tcp) = (address(&orders.unix)?, address(&orders.tcp)?);
    // Ignored: then it has as many connections as it may.
    let _raised = dolmen_env::raise_descriptor_limit();
    let scene = Scene { process: std::process::id(), unix, tcp, is_over: AtomicBool::new(false) };
    let mut readers = if orders.beside == Beside::SlowReaders { slow_readers(&scene)? } else { Vec::new() };
    say("ready")?;
    hear();
    dolmen_env::scope(|threads| {
        threads.spawn(|| {
            hear();
            scene.is_over.store(true, Ordering::Relaxed);
        });
        let done = match orders.beside {
            Beside::Nothing => Ok(0),
            Beside::Computing => Ok(compute(&scene)),
            Beside::Connections => Ok(come_and_go(&scene)),
            Beside::Malformed => malformed(&scene),
            Beside::SlowReaders => read_slowly(&scene, &mut readers),
        };
        // Whoever has failed is still listened to until he is told to end.
        done.and_then(|count| say(&count.to_string()))
    })
}

fn unknown() -> Error {
    Error::Child { scenario: SCENARIO.to_owned() }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::system("write to the parent"))
}

/// Waits for a line, or the end.
fn hear() {
    // Ignored: without a parent it ends.
    let _read = std::io::stdin().lock().read_line(&mut String::new());
}

fn compute(scene: &Scene) -> u64 {
    let mut count = 0;
    while !scene.is_over() {
        count += 1;
    }
    count
}

/// Connections by all ways, opened and dropped: every other one greets, the others say a part of that and no more.
fn come_and_go(scene: &Scene) -> u64 {
    let mut count = 0;
    while !scene.is_over() {
        let (mut greeted, mut others) = (Vec::new(), Vec::new());
        for number in 0..AT_ONCE {
            if scene.is_over() {
                break;
            }
            let way = WAYS[number % WAYS.len()];
            // One that is refused is one more that has come and gone.
            if number % 2 == 0 {
                greeted.extend(Rude::connect(scene.address(way), way, scene.client(count)));
            } else if let Ok(mut stream) = silent(scene.address(way)) {
                // Ignored: it may be closed before all is said.
                let _said = push(&mut stream, &hello(0)[..number % 64]);
                others.push(stream);
            }
            count += 1;
        }
    }
    count
}

/// What is no frame, as fast as it goes: behind good ones, and in the place of a greeting. Each ends its connection. Frames are
/// counted.
fn malformed(scene: &Scene) -> Result<u64> {
    let garbage = vec![0x77; GARBAGE_BYTES];
    let mut count = 0;
    for (number, way) in (1..).zip(WAYS.into_iter().cycle()) {
        let mut rude = Rude::connect(scene.address(way), way, scene.client(number))?;
        let opened = rude.open()?;
        let good = rude.frame(opened, &update(opened, b"other", b"value"))?;
        let mut bad = good.clone();
        bad[70] ^= 8;
        let frames = [good.repeat(GOOD_FRAMES), bad].concat();
        // Ignored, both: it is closed in the midst of it.
        let _said = push(&mut rude.stream, &frames);
        let _said = push(&mut silent(scene.address(way))?, &garbage);
        count += GOOD_FRAMES as u64 + 2;
        if scene.is_over() {
            break;
        }
    }
    Ok(count)
}

/// A connection that asks for much and reads little: with what it has still to ask.
struct Slow {
    stream: Stream,
    frames: Vec<u8>,
    said: usize,
}

fn slow_readers(scene: &Scene) -> Result<Vec<Slow>> {
    let reader = |number: usize| {
        let way = WAYS[number % WAYS.len()];
        let mut rude = Rude::connect(scene.address(way), way, scene.client(number as u64))?;
        let opened = rude.open()?;
        rude.ask(opened, &update(opened, b"long", &vec![9; SLOW_BYTES]))?;
        let frames = rude.frame(opened, &fetch(opened, b"long", SLOW_BYTES))?.repeat(SLOW_ANSWERS);
        Ok(Slow { stream: rude.stream, frames, said: 0 })
    };
    (0..SLOW_READERS).map(reader).collect()
}

/// Reads the answers a few bytes at a time; these are counted.
fn read_slowly(scene: &Scene, readers: &mut [Slow]) -> Result<u64> {
    let (mut bytes, mut count) = ([0; 512], 0);
    while !scene.is_over() {
        for Slow { stream, frames, said } in &mut *readers {
            *said += stream.write(&frames[*said..])?;
            stream.flush()?;
            count += stream.read(&mut bytes)? as u64;
        }
        dolmen_env::wait(SLOW_PAUSE);
    }
    Ok(count)
}
