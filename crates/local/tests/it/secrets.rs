//! What others must not guess of a pool.

use crate::common::{TempDir, make_cont, small};
use dolmen_env::Rng;
use dolmen_local::{OpenOptions, create, open};

/// The number that xoshiro256** gives after these two, if they are its own: four words tell its whole state.
fn next_of_the_generator(told: [u128; 2]) -> u128 {
    let words = told.map(u128::to_le_bytes).concat();
    let words: Vec<u64> = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // `next_u128` has the half that was drawn first above.
    let drawn = [words[1], words[0], words[3], words[2]];
    let inverse = |by: u64| (0..6).fold(by, |x, _| x.wrapping_mul(2_u64.wrapping_sub(by.wrapping_mul(x))));
    let second = drawn.map(|out| out.wrapping_mul(inverse(9)).rotate_right(7).wrapping_mul(inverse(5)));
    // The exclusive-or of the first and the third word, and of the first and the fourth.
    let third = |at: usize| second[at] ^ second[at + 1];
    let fourth = |at: usize| third(at + 1) ^ third(at) ^ second[at] << 17 ^ second[at];
    let a = fourth(0) ^ second[0];
    let mut state = [a, second[1], third(0) ^ second[0] << 17, fourth(1) ^ a];
    let mut next = || {
        let [a, b, c, d] = &mut state;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        out
    };
    let _told = [(); 3].map(|()| next());
    u128::from(next()) << 64 | u128::from(next())
}

#[test]
fn the_hash_key_of_a_container_does_not_follow_from_those_of_others() {
    let mut rng = Rng::from_seed(11);
    let told = [rng.next_u128(), rng.next_u128()];
    assert_eq!(next_of_the_generator(told), rng.next_u128(), "so it would be done");

    let temp = TempDir::new("secrets");
    let dir = temp.join("tank");
    create(&dir, &small(1)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let [first, second, third] =
        ["a", "b", "c"].map(|label| u128::from_le_bytes(make_cont(&pool, label).hash_key.0));
    assert_ne!(next_of_the_generator([first, second]), third);
    pool.close().unwrap();
}
