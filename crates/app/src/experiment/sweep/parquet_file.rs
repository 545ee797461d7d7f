//! A table as a Parquet file. The only module that knows the library, and only with the feature `parquet`.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::frame::{Column, Frame};
use super::store::write_whole;
use crate::config::PROGRAM;
use crate::failure::Failure;

/// Writes the table as one group of rows, uncompressed.
pub(crate) fn write_parquet(frame: &Frame, path: &Path) -> Result<(), Failure> {
    let bytes = encode(frame).map_err(|error| Failure::file("write", path)(std::io::Error::other(error)))?;
    write_whole(path, &bytes)
}

fn encode(frame: &Frame) -> Result<Vec<u8>, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> =
        frame.columns.iter().map(|(name, column)| Ok(Arc::new(field(name, column)?))).collect();
    let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields?).build()?);
    let properties = Arc::new(WriterProperties::builder().set_created_by(PROGRAM.to_owned()).build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut rows = file.next_row_group()?;
    for (_, column) in &frame.columns {
        let mut writer = rows.next_column()?.expect("there is a writer for each field of the schema");
        write(&mut writer, column)?;
        writer.close()?;
    }
    rows.close()?;
    file.into_inner()
}

fn field(name: &str, column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical, repetition) = match column {
        Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Column::Whole(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Column::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        Column::Flag(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
    };
    let builder = Type::primitive_type_builder(name, physical);
    builder.with_logical_type(logical).with_repetition(repetition).build()
}

fn write(writer: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<(), ParquetError> {
    match column {
        Column::Text(values) => {
            let values: Vec<ByteArray> = values.iter().map(|value| value.as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Column::Whole(values) => {
            let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Column::Number(values) => {
            let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            let values: Vec<f64> = values.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
        }
        Column::Flag(values) => {
            writer.typed::<BoolType>().write_batch(values, None, None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    #[test]
    fn a_table_is_read_back_as_it_was_written() {
        let mut frame = Frame::default();
        frame.push("policy", Column::Text(vec!["fifo".into(), "srtf{by=\"time\"}".into()]));
        frame.push("seed", Column::Whole(vec![0, 7]));
        frame.push("avg_jct_s", Column::Number(vec![Some(1.5), None]));
        frame.push("unstable", Column::Flag(vec![false, true]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write_parquet(&frame, &path).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<Vec<(String, Field)>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
            })
            .collect();
        let row = |policy: &str, seed, jct, unstable| {
            let fields = [Field::Str(policy.to_owned()), Field::Long(seed), jct, Field::Bool(unstable)];
            ["policy", "seed", "avg_jct_s", "unstable"]
                .map(str::to_owned)
                .into_iter()
                .zip(fields)
                .collect::<Vec<_>>()
        };
        let expected =
            [row("fifo", 0, Field::Double(1.5), false), row("srtf{by=\"time\"}", 7, Field::Null, true)];
        assert_eq!(rows, expected);
    }
}
