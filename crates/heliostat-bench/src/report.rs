//! What every report is made of: a page that needs nothing from elsewhere, the directory it goes
//! to, the facts of where it was made, numbers and tables for people.
//!
//! Nothing here runs or measures; plots are drawn by [`crate::plot`].

mod directory;
mod facts;
pub mod format;
mod model;
mod page;
mod sim;
mod table;

pub use directory::{check_directory, default_directory, write_directory};
pub use facts::Facts;
pub use model::write_model_report;
pub use page::{Page, escaped};
pub use sim::{SimRun, write_sim_report};
pub use table::{TableStyle, TextCell, TextTable};
