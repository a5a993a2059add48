//! How whoever asks waits for an answer.
//!
//! An operation of several requests is written once, as a future without a runtime behind it: who waits polls it, and who
//! waits in the call finds it complete at the first poll.

use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// How an operation waits for its answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// In the thread that asks, until they are there.
    Now,
    /// Not at all: it goes on when somebody polls it.
    Later,
}

/// Gives way once: the operation goes on with the next poll. Nobody is woken, since whoever waits polls.
pub async fn give_way() {
    let mut is_back = false;
    poll_fn(|_context| {
        if is_back {
            return Poll::Ready(());
        }
        is_back = true;
        Poll::Pending
    })
    .await;
}

/// Polls an operation once.
pub fn step<F: Future + Unpin>(operation: &mut F) -> Poll<F::Output> {
    pin!(operation).poll(&mut Context::from_waker(Waker::noop()))
}

/// Carries out an operation that goes the way [`Way::Now`].
///
/// # Panics
/// If it gives way all the same.
pub fn now<T>(operation: impl Future<Output = T>) -> T {
    match step(&mut pin!(operation)) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("whoever waits in the call does not give way"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn counted(way: Way, answers: u32) -> u32 {
        let mut count = 0;
        while count < answers {
            if way == Way::Later {
                give_way().await;
            }
            count += 1;
        }
        count
    }

    #[test]
    fn an_operation_gives_way_as_often_as_it_waits() {
        assert_eq!(now(counted(Way::Now, 3)), 3);
        let mut later = Box::pin(counted(Way::Later, 3));
        for _ in 0..3 {
            assert_eq!(step(&mut later), Poll::Pending);
        }
        assert_eq!(step(&mut later), Poll::Ready(3));
    }
}
