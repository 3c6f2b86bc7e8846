"""What every floor uses: inputs, records, files, laws, random numbers, progress; private."""
