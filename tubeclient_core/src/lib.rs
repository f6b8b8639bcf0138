//! The compiled core of pyspark-tubeclient: messages from the bytes of a broker's answer to Arrow columns, from a
//! producer to frames, and from frames to the embedded broker's stores; and records' texts to typed columns.
//!
//! It takes what brokers and producers usually write. Of anything else it says "not mine", with `None`, and the plain
//! Python code decides, which is the reference: so errors have one author. It never fails for bytes.

mod calls;
mod cells;
mod changes;
mod columns;
mod fields;
mod intake;
mod json;
mod logical;
mod messages;
mod numbers;
mod objects;
mod packs;
mod places;
mod record_columns;
mod records;
mod sends;
mod times;
mod typed;
mod values;
mod wire;

use pyo3::prelude::*;

#[pymodule]
mod tubeclient_core {
    #[pymodule_export]
    use super::columns::{Columns, Texts};
    #[pymodule_export]
    use super::intake::{Sends, take_sends};
    #[pymodule_export]
    use super::messages::{Messages, take_messages};
    #[pymodule_export]
    use super::records::take_records;
    #[pymodule_export]
    use super::sends::{encode_sends, take_frames, take_sent};
    #[pymodule_export]
    use super::typed::RecordReader;

    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
