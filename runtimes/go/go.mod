module connlab/runtimes/go

go 1.21
