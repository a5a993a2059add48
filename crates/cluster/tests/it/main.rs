//! The cluster on stores that are watched, stopped and made to fail from outside.

mod commit;
mod common;
mod dispatch;
mod service;
mod service_crash;
mod stage;
