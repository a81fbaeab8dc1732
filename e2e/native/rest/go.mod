module github.com/slurmlet/slurmlet/e2e/native/rest

go 1.26.4

// The specs of pkg/client drive a real slurmrestd (e2e/slurm_client_test.go). No package here imports the module, so
// `go mod tidy` would take it out.
require github.com/SlinkyProject/slurm-client v1.2.1
