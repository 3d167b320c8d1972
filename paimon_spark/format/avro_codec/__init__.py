"""TODO: what format.avro_codec is for."""
